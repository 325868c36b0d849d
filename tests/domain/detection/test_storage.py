import pytest

from controlplane.domain.detection import hardware, storage_room
from controlplane.domain.detection.storage_room import POINTS, hours_left, used_share
from controlplane.domain.detection.storage_state import Room
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import T0, Stage

IO_ERROR = {"type": "OSError", "message": "[Errno 5] Input/output error"}
TERA = 10**12


def training(**words):
    stage = Stage(nodes=8, ranks_per_node=2, **words)
    stage.launch()
    stage.train(1, 3, 2.0)
    return stage


def probe(stage, node, ms, **disk):
    disks = [{"path": "shared", "free_bytes": 90 * TERA, "free_inodes": 10**9, "write_probe_ms": ms} | disk]
    stage.send("node.health", node=node, run=None, gpus=[], host={}, disks=disks, nics=[])


def log(stage, node, text):
    stage.send("node.log", node=node, run=None, source="kernel", text=text, boot_id="b", gap=False)


def fail(stage, *ranks):
    for rank in ranks:
        stage.rank("rank.log", rank, stream="stderr", text="OSError: [Errno 5] Input/output error: reading shard")
        stage.rank("rank.exited", rank, exit_code=1, error=IO_ERROR)


def stalls(stage):
    return [item for item in stage.log if item.klass == "storage_stall"]


def verdict(stage):
    return diagnose(list({item.key: item for item in stage.log}.values()), now=stage.now, policy=stage.policy)


def test_all_ranks_that_lose_the_storage_within_seconds_are_one_stall_and_nobody_else_is_blamed():
    stage = training()
    for rank in range(16):
        fail(stage, rank)
        stage.now += 0.1
    stage.wait(3)
    found = stalls(stage)[0]
    assert (found.stage, found.entity, found.severity) == (Sure.CONFIRMED, "storage", "critical")
    assert found.facts["answers"] is False
    assert [blame.entity for blame in verdict(stage).blamed] == ["storage"]
    assert verdict(stage).act_on is None


def test_two_kernels_that_wait_for_the_file_server_are_a_stall_until_they_say_it_is_back():
    stage = training()
    for node in ("n0", "n3"):
        log(stage, node, "nfs: server store0 not responding, still trying")
    stage.wait(1)
    assert stalls(stage)[0].sentence == "the storage does not answer: the kernel of n0, n3 waits for the file server"
    assert stalls(stage)[0].facts["names"] == ["store0"]
    stage.wait(900, every=10)
    assert len(stalls(stage)) == 1
    for node in ("n0", "n3"):
        log(stage, node, "nfs: server store0 OK")
    stage.wait(1)
    assert stalls(stage)[-1].stage == Sure.CLEARED
    assert stalls(stage)[-1].sentence == "the storage answers again after 15 min 2 s"


def test_slow_probes_of_two_nodes_hold_until_both_are_quick_again():
    stage = training()
    fail(stage, 0)
    stage.wait(1)
    for _ in range(3):
        for node in ("n2", "n5"):
            probe(stage, node, 30_000)
        stage.wait(60, every=5)
    assert stalls(stage)[-1].stage == Sure.CONFIRMED
    probe(stage, "n2", 14)
    stage.wait(5)
    assert stalls(stage)[-1].stage == Sure.CONFIRMED
    probe(stage, "n5", 15)
    stage.wait(1)
    assert stalls(stage)[-1].stage == Sure.CLEARED


def test_one_slow_probe_of_each_beside_a_run_that_trains_is_no_stall():
    stage = training()
    for node in ("n2", "n5"):
        probe(stage, node, 30_000)
    stage.wait(1)
    for node in ("n2", "n5"):
        probe(stage, node, 14)
    stage.wait(60, every=5)
    assert stalls(stage) == []


def test_one_node_alone_tells_of_its_own_trouble():
    stage = training()
    log(stage, "n2", "nfs: server store0 not responding, still trying")
    for _ in range(5):
        probe(stage, "n2", 30_000)
        for node in ("n3", "n4"):
            probe(stage, node, 12)
        stage.wait(15, every=5)
    assert stalls(stage) == []
    lines = hardware.testimony(stage.machine._state, stage.policy, stage.now)
    assert [(line.entity, line.kind) for line in lines] == [("node:n2", "slow probe")]


def test_a_few_ranks_that_fail_to_read_are_not_the_storage():
    stage = training()
    fail(stage, 0, 1)
    stage.wait(5)
    assert stalls(stage) == []


def test_errors_minutes_apart_do_not_add_up():
    stage = training()
    for rank in range(0, 16, 3):
        fail(stage, rank)
        stage.wait(60, every=5)
    assert stalls(stage) == []


def test_without_any_witness_the_storage_is_tried_again_after_a_while():
    stage = training()
    fail(stage, *range(16))
    stage.wait(1)
    began = stage.now
    stage.wait(stage.policy.storage_quiet_s + 5, every=5)
    assert stalls(stage)[-1].stage == Sure.CLEARED
    assert stalls(stage)[-1].at - began == pytest.approx(stage.policy.storage_quiet_s, abs=6)
    assert "nobody complains" in stalls(stage)[-1].sentence


def test_the_moment_of_trying_again_is_known_in_advance():
    stage = training()
    fail(stage, *range(16))
    stage.sweep()
    due = stage.machine.due(stage.now)
    assert due is not None
    assert due <= stage.now + stage.policy.storage_quiet_s


def test_a_stall_that_outlives_a_launch_is_told_of_the_new_attempt_and_then_cleared():
    stage = training()
    for node in ("n0", "n3"):
        log(stage, node, "nfs: server store0 not responding, still trying")
    stage.wait(2)
    stage.launch()
    for node in ("n0", "n3"):
        log(stage, node, "nfs: server store0 OK")
    stage.wait(1)
    assert [(item.attempt, item.stage.value) for item in stalls(stage)] == [
        (1, "confirmed"),
        (2, "confirmed"),
        (2, "cleared"),
    ]


def test_no_room_left_on_many_ranks_is_a_full_storage():
    stage = training()
    for rank in range(16):
        error = {"type": "OSError", "message": "[Errno 28] No space left on device: '/store/ckpt'"}
        stage.rank("rank.exited", rank, exit_code=1, error=error)
    stage.wait(2)
    assert stalls(stage)[0].facts["full"] is True
    assert stalls(stage)[0].sentence.startswith("the storage is full: 16 ranks")


def test_the_old_errors_do_not_open_a_second_stall():
    stage = training()
    fail(stage, *range(16))
    stage.wait(1)
    for node in ("n2", "n5"):
        probe(stage, node, 12)
    stage.wait(30)
    assert [item.stage.value for item in stalls(stage)][-1] == "cleared"
    assert len({item.key for item in stalls(stage)}) == 1


@pytest.mark.parametrize(
    "disks", [None, 7, [None, "x", {"path": 5}], [{"path": "p", "write_probe_ms": "nan", "free_bytes": "inf"}]]
)
def test_strange_disks_harm_nothing(disks):
    stage = training()
    stage.send("node.health", node="n1", run=None, gpus=[], disks=disks)
    stage.sweep()


def room(*free, every=600.0, total=None):
    return Room(points=[[T0 + number * every, value, -1.0] for number, value in enumerate(free)], total_bytes=total)


def test_a_line_through_the_points_tells_the_hours_that_are_left():
    shrinking = room(*(100.0 - number for number in range(13)))
    assert hours_left(shrinking) == pytest.approx(88 / 6)


def test_room_that_comes_and_goes_is_no_trend():
    assert hours_left(room(*([100.0, 60.0] * 10))) is None
    assert hours_left(room(*range(60, 80))) is None
    assert hours_left(room(100.0, 90.0, 80.0)) is None


def test_the_used_share_needs_a_size():
    assert used_share(room(20.0)) is None
    assert used_share(room(20.0, total=100.0)) == pytest.approx(0.8)


def test_a_path_that_will_be_full_soon_is_told_once_and_taken_back():
    stage = training()
    for number in range(13):
        probe(stage, "n1", 12, free_bytes=(40 - number) * TERA, total_bytes=400 * TERA)
        stage.now += 600
    stage.sweep()
    (told,) = stalls(stage)
    assert told.severity == "warning"
    assert told.facts["answers"] is True
    assert told.sentence == "shared is 93 % full and will be full in about 5 h"
    for _ in range(POINTS):
        probe(stage, "n1", 12, free_bytes=300 * TERA, total_bytes=400 * TERA)
        stage.now += 600
    stage.sweep()
    assert stalls(stage)[-1].stage == Sure.CLEARED


def test_another_node_is_listened_to_when_the_first_falls_silent():
    stage = training()
    probe(stage, "n1", 12)
    probe(stage, "n2", 12)
    assert stage.machine._state.storage.rooms["shared"].node == "n1"
    stage.now += 2 * storage_room.SILENT_S
    probe(stage, "n2", 12)
    assert stage.machine._state.storage.rooms["shared"].node == "n2"
