"""What a training loop says through the hooks, on a given clock and without torch."""

import json
import subprocess
import sys

import pytest
from middlewatch_agent import hooks, shim
from middlewatch_agent.hooks import place
from middlewatch_agent.hooks.watch import Watch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class Heard:
    """Takes the place of the reporter."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []
        self.dropped = 0

    def send(self, kind, data):
        self.events.append((kind, dict(data)))

    def of(self, kind: str) -> list[dict]:
        return [data for found, data in self.events if found == kind]

    def close(self):
        pass


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def watch(clock, heard):
    return Watch(place.Place(rank=0), heard, window_steps=3, clock=clock)


def test_a_step_is_reported_with_the_time_since_the_step_before(watch, clock, heard):
    clock.pass_(1.0)
    watch.step(1, loss=2.5, tokens=4096, grad_norm=0.5, lr=1e-3)
    clock.pass_(0.25)
    watch.step(2)
    assert heard.of("rank.step") == [
        {"step": 1, "duration_ms": 1000.0, "loss": 2.5, "tokens": 4096, "grad_norm": 0.5, "lr": 0.001},
        {"step": 2, "duration_ms": 250.0},
    ]


def test_time_in_phases_does_not_count_as_step_time(watch, clock, heard):
    watch.step(1)
    with watch.phase("eval"):
        clock.pass_(300.0)
        with watch.phase("save"):
            clock.pass_(5.0)
    clock.pass_(0.2)
    watch.step(2)
    assert heard.of("rank.step")[1]["duration_ms"] == 200.0


def test_only_rank_0_reports_steps_and_every_rank_its_windows(clock, heard):
    watch = Watch(place.Place(rank=3), heard, window_steps=2, clock=clock)
    for step in (1, 2):
        clock.pass_(1.0)
        watch.step(step)
    assert [kind for kind, _ in heard.events] == ["rank.window"]


def test_a_window_holds_the_medians_of_computing_waiting_and_data(watch, clock, heard):
    for step, (data, wait, compute) in enumerate([(0.1, 0.2, 1.0), (0.1, 9.0, 1.2), (0.3, 0.4, 1.1)], start=5):
        with watch.data():
            clock.pass_(data)
        clock.pass_(compute)
        with watch.wait():
            clock.pass_(wait)
        watch.step(step)
    assert heard.of("rank.window") == [
        {"first_step": 5, "last_step": 7, "compute_ms": 1100.0, "wait_ms": 400.0, "data_ms": 100.0, "dropped": 0}
    ]


def test_a_phase_tells_its_begin_its_progress_and_its_end(watch, clock, heard):
    with watch.phase("eval", total=29, unit="batches", deadline_s=60) as phase:
        clock.pass_(1)
        phase.progress(4)
        clock.pass_(0.01)
        phase.progress(5)
        phase.progress(29)
    told = heard.of("rank.phase")
    assert [(one["state"], one.get("done")) for one in told] == [
        ("begin", None), ("progress", 4), ("progress", 29), ("end", 29),
    ]  # fmt: skip
    assert told[0] == {"phase": "eval", "state": "begin", "total": 29, "unit": "batches", "deadline_s": 60}


def test_a_phase_that_fails_ends_and_the_exception_goes_on(watch, heard):
    with pytest.raises(ValueError, match="data"), watch.phase("eval"):
        raise ValueError("data")
    assert [one["state"] for one in heard.of("rank.phase")] == ["begin", "end"]


def test_a_loss_that_is_no_number_is_left_out_and_counted(watch, heard):
    watch.step(1, loss=object())
    assert heard.of("rank.step")[0].get("loss") is None
    assert watch.faults == 1


def test_without_the_environment_everything_is_a_no_op():
    watch = hooks.attach({})
    with watch.phase("eval", total=3) as phase, watch.data(), watch.wait():
        phase.progress(1)
    watch.step(1, loss=1.0)
    watch.close()
    assert watch.faults == 0


def test_an_environment_with_nonsense_in_it_counts_as_absent():
    found = place.read({"RANK": "x", "WORLD_SIZE": "-1", "MIDDLEWATCH_RESUME_STEP": "", "MIDDLEWATCH_ATTEMPT": "²"})
    assert found == place.Place()


def test_steps_are_reported_without_importing_torch():
    program = (
        "import sys; from middlewatch_agent import hooks; w = hooks.attach(); w.step(1); w.close();"
        "print('torch' in sys.modules, 'django' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("ending", ["raise RuntimeError('lost peer')", "raise SystemExit(3)"])
def test_an_uncaught_exception_is_left_for_the_shim(tmp_path, ending):
    path = tmp_path / "error"
    program = f"from middlewatch_agent import hooks; hooks.attach()\ndef train():\n    {ending}\ntrain()"
    environ = {"MIDDLEWATCH_SOCKET": str(tmp_path / "s"), "TORCHELASTIC_ERROR_FILE": str(path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    found = shim.read_error(str(path))
    if "SystemExit" in ending:
        assert (done.returncode, found) == (3, None)
    else:
        assert (found["type"], found["message"]) == ("RuntimeError", "lost peer")
        assert "in train" in found["traceback_tail"]
        assert "lost peer" in done.stderr


def test_the_first_exception_that_was_written_stays(tmp_path):
    path = tmp_path / "error"
    path.write_text(json.dumps({"message": "Cause: first"}))
    hooks.errors.write(path, ValueError("second"))
    assert shim.read_error(str(path))["message"] == "first"


def test_batches_are_left_out_once_where_the_launcher_says_so():
    here = place.read({"MIDDLEWATCH_SKIP_BATCHES": "482:681"})
    assert [here.skips_at(step) for step in (481, 482, 483)] == [0, 200, 0]


@pytest.mark.parametrize("text", ["", "482", "9:1", "a:b", ":", "1:2:3"])
def test_a_skip_that_is_none_counts_as_absent(text):
    assert place.read({"MIDDLEWATCH_SKIP_BATCHES": text}).skip is None
