"""A rank that trains nothing and behaves like one that does.

It takes its place from the environment, meets its peers before each step, reports
by the hooks, writes checkpoints that a scan accepts, and raises like gloo when a
peer vanishes. So the whole product can be hurt without waiting for torch.
"""

import os
import shutil
import socket
import time
from pathlib import Path

from middlewatch_agent import hooks
from middlewatch_agent.dcp import metadata, verdict
from middlewatch_agent.hooks import Watch

STEP_S = 0.1
SAVE_EVERY = 10
KEEP = 3
MEET_LIMIT_S = 60.0
MARKER = Path(__file__).parent.parent / "agent/launcher/fixtures/metadata_pickle.bin"


class Ring:
    """All ranks around rank 0: nobody goes on before everybody is there."""

    def __init__(self, rank: int, size: int, address: tuple[str, int]) -> None:
        self.rank = rank
        self.peers = self._gather(size, address) if rank == 0 else [self._join(address)]
        self.names = {peer: peer.getpeername() for peer in self.peers}

    def _gather(self, size: int, address: tuple[str, int]) -> list[socket.socket]:
        with socket.create_server(address) as door:
            door.settimeout(MEET_LIMIT_S)
            return [door.accept()[0] for _ in range(size - 1)]

    def _join(self, address: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + MEET_LIMIT_S
        while True:
            try:
                return socket.create_connection(address)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def meet(self) -> None:
        if self.rank == 0:
            self._hear()
            self._tell()
        else:
            self._tell()
            self._hear()

    def _tell(self) -> None:
        for peer in self.peers:
            peer.sendall(b".")

    def _hear(self) -> None:
        for peer in self.peers:
            peer.settimeout(None)
            if not peer.recv(1):
                raise RuntimeError(f"[gloo/transport/tcp/pair.cc:534] Connection closed by peer {self.names[peer]}")


def save(watch: Watch, step: int) -> None:
    """Write shards as long as the marker says, then the marker."""
    folder = Path(watch.place.checkpoint_dir)
    path = verdict.path_of(folder, step)
    facts = {"step": step, "tier": "persistent", "path": str(path), "format": "dcp"}
    watch.send("checkpoint", {**facts, "state": "saving"})
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    for name, length in metadata.needed_bytes(MARKER.read_bytes()).items():
        with (path / name).open("wb") as shard:
            shard.truncate(length)
    (path / "half").write_bytes(MARKER.read_bytes())
    (path / "half").rename(path / verdict.MARKER)
    found = verdict.judge(folder, step)
    sizes = {"bytes": found.bytes, "files": found.files, "expected_files": found.expected_files}
    watch.send("checkpoint", {**facts, "state": found.state, **sizes})
    for old in verdict.steps(folder)[KEEP:]:
        shutil.rmtree(verdict.path_of(folder, old), ignore_errors=True)


def resume(watch: Watch) -> int:
    """Tell from where the training goes on."""
    step = watch.place.resume_step or 0
    if watch.place.rank == 0 and step:
        path = verdict.path_of(Path(watch.place.checkpoint_dir), step)
        data = {"step": step, "tier": "persistent", "path": str(path), "format": "dcp", "state": "restored"}
        watch.send("checkpoint", data)
    watch.send("rank.resume", {"step": step, "world_size": watch.place.world_size})
    return step


def main() -> None:
    watch = hooks.attach()
    place = watch.place
    with watch.phase("rendezvous"):
        ring = Ring(place.rank, place.world_size, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    with watch.phase("restore"):
        step = resume(watch)
    while True:
        time.sleep(STEP_S)
        with watch.wait():
            ring.meet()
        step += 1
        watch.step(step, loss=1.0 / step, tokens=128)
        if place.rank == 0 and step % SAVE_EVERY == 0:
            save(watch, step)


if __name__ == "__main__":
    main()
