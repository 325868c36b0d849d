"""One story with the real example: start, hang, collect, stop, resume, complete."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec
import pytest
from middlewatch_agent import collect
from middlewatch_agent.context import Command
from middlewatch_wire.kinds import KINDS

from tests.agent.launcher.stage import Cluster, StandInContext, wait_for

EXAMPLE = Path(__file__).parents[3] / "examples/tiny_transformer.py"
LIMIT_S = 100.0
LAST_STEP = 40


class Trained(Cluster):
    """Two nodes that train the example; `heard` is what its hooks said."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        command = [
            sys.executable, str(EXAMPLE), "--steps", str(LAST_STEP), "--checkpoint-every", "5",
            "--width", "16", "--length", "16", "--step-s", "0.05",
        ]  # fmt: skip
        text = self.toml.read_text()
        self.toml.write_text(text.replace(json.dumps([sys.executable, "-S", str(self.program)]), json.dumps(command)))
        self.open()
        self.heard: list[dict] = []
        self._sockets = [self._listen(folder / node / "agent.sock") for node in ("n01", "n02")]

    def _listen(self, path: Path) -> socket.socket:
        path.parent.mkdir(parents=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(path))
        listener.setblocking(False)
        return listener

    def listen(self) -> list[dict]:
        for listener in self._sockets:
            try:
                while True:
                    self.heard.append(json.loads(listener.recv(1 << 16)))
            except BlockingIOError:
                pass
        return self.heard

    def has(self, kind: str, attempt: int, **facts: object) -> bool:
        return any(
            (event["kind"], event["attempt"]) == (kind, attempt) and facts.items() <= event["data"].items()
            for event in self.listen()
        )

    def until(self, kind: str, attempt: int, **facts: object) -> None:
        try:
            wait_for(lambda: self.has(kind, attempt, **facts), LIMIT_S)
        except AssertionError:
            logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("n0*/logs/*"))
            pytest.fail(f"no {kind} {facts} of attempt {attempt}:\n{logs}")

    def collect(self, node: str) -> tuple[dict, StandInContext]:
        context = StandInContext(self.folder / node)
        args = {"run": "demo", "attempt": 1, "what": ["stacks", "collectives"], "budget_s": 3.0}
        outcome = collect.Collector(context)(Command(command_id="c", kind="collect", args=args))
        return outcome.data["ranks"], context


@pytest.fixture
def trained(tmp_path):
    made = Trained(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hung_training_is_looked_at_stopped_and_resumed_to_its_end(trained):
    assert trained.start(1).data["world_size"] == 2
    trained.until("checkpoint", 1, step=5, state="complete")

    os.kill(trained.pid(1), signal.SIGSTOP)
    wait_for(lambda: "T" in {process.state for process in trained.living() if process.rank == 1})
    waiting = wait_for(lambda: _waits(trained), LIMIT_S)
    assert waiting.of("rank.stack")[1]["data"]["tool"] == "worker_server"
    for event in waiting.events:
        msgspec.convert(event["data"], KINDS[event["kind"]])
    ranks, silent = trained.collect("n02")
    assert ranks == {"1": {"proc_state": "T", "answered": False}}
    assert silent.of("rank.collective") == []

    assert trained.stop(1).data == {"stopped": True, "survivors": []}
    assert trained.exited()["data"]["reason"] == "killed"

    found = trained.command("checkpoints.scan", run="demo", newest=5).data["checkpoints"]
    step = next(one["step"] for one in found if one["state"] == "complete")
    assert trained.start(2, nodes=("n01", "n03"), step=step).state == "succeeded"
    trained.until("rank.resume", 2, step=step, world_size=2)
    trained.until("rank.step", 2, step=LAST_STEP)
    wait_for(lambda: trained.service.tell() or len(trained.context.of("attempt.exited")) == 2, LIMIT_S)
    assert trained.context.of("attempt.exited")[1]["data"] == {"reason": "completed", "exit_code": 0}
    trained.until("checkpoint", 2, step=LAST_STEP, state="complete")
    for event in trained.context.events:
        msgspec.convert(event["data"], KINDS[event["kind"]])


def _waits(trained: Trained) -> StandInContext | None:
    """What rank 0's node collects, once rank 0 waits in a collective."""
    ranks, context = trained.collect("n01")
    assert ranks["0"]["answered"] is True
    groups = [event["data"] for event in context.of("rank.collective")]
    return context if any(one["state"] == "waiting" for one in groups) else None
