"""A training of two ranks for the tests: one import of torch, a fork for every rank.

    python -m tests.agent.hooks.job FOLDER

Runs the scenes one after the other; rank r of a scene writes `FOLDER/<scene>.<r>.json`.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from middlewatch_agent import hooks
from middlewatch_agent.hooks import checkpoints as _imported_before_the_forks  # noqa: F401
from middlewatch_agent.hooks.switches import file_of
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
Told = dict[str, object]


class Training:
    """A model, its optimizer, and the batch of every step."""

    def __init__(self, watch: hooks.Watch, seed: int) -> None:
        torch.manual_seed(seed)
        self.watch = watch
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, betas=(0.8, 0.9))
        self.state = {"model": self.model, "optimizer": self.optimizer}
        self.ddp = watch.ddp(DistributedDataParallel(self.model))

    def step(self, step: int) -> float:
        """Train one step; the same step sees the same batch in every attempt."""
        chance = torch.Generator().manual_seed(step * WORLD + self.watch.place.rank)
        inputs = torch.randn(4, 8, generator=chance)
        loss = (self.ddp(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.watch.step(step, loss=loss.item())
        return loss.item()


def first(watch: hooks.Watch, folder: Path) -> Told:
    """From the beginning: an asynchronous save, a synchronous one, and the losses that follow."""
    training = Training(watch, seed=1)
    begun_at = watch.checkpoints.load(training.state)
    training.step(1)
    pending = watch.checkpoints.async_save(training.state, 1)
    losses = [training.step(2)]
    assert pending is not None
    pending.result()
    watch.checkpoints.save(training.state, 2)
    losses += [training.step(3), training.step(4)]
    return {"begun_at": begun_at, "losses": losses, "ddp_state": len(training.optimizer.state)}


def resumed(watch: hooks.Watch, folder: Path) -> Told:
    """From the asynchronous checkpoint, into a model that was made otherwise."""
    training = Training(watch, seed=99)
    begun_at = watch.checkpoints.load(training.state)
    return {"begun_at": begun_at, "losses": [training.step(step) for step in (2, 3, 4)]}


def torn(watch: hooks.Watch, folder: Path) -> Told:
    """One rank dies while both are writing."""
    training = Training(watch, seed=1)
    watch.checkpoints.load(training.state)
    training.step(3)
    pending = watch.checkpoints.async_save(training.state, 3)
    if watch.place.rank == 1:
        os._exit(9)
    assert pending is not None
    error = pending.exception()
    watch.checkpoints.wait()
    return {"error": type(error).__name__}


def kept(watch: hooks.Watch, folder: Path) -> Told:
    """Six saves of which three stay."""
    training = Training(watch, seed=1)
    watch.checkpoints.load(training.state)
    for step in range(10, 16):
        watch.checkpoints.save(training.state, step)
    return {}


def asked(watch: hooks.Watch, folder: Path) -> Told:
    """Rank 0 arms the save switch, later the kill switch; each rank is a little out of step with the other."""
    training, saved = Training(watch, seed=1), 0
    for step in range(1, 5000):
        training.step(step)
        if watch.place.rank == 0 and step in (5, saved + 1) and step > 1:
            arm(file_of(folder, "asked", 1, "save" if step == 5 else "kill"))
        time.sleep(0.002 * ((step + watch.place.rank) % 2))
        if watch.stop_wanted():
            return {"saved": saved, "stopped": step}
        if watch.save_wanted():
            saved = step
    return {"saved": saved, "stopped": 0}


def arm(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("c")
    os.utime(path, (time.time() + 60.0,) * 2)


SCENES: dict[str, tuple[Callable[[hooks.Watch, Path], Told], int]] = {
    "first": (first, 0), "resumed": (resumed, 1), "torn": (torn, 2), "kept": (kept, 2),
    "asked": (asked, 0),
}  # fmt: skip


def environment(scene: str, rank: int, resume: int, folder: Path) -> dict[str, str]:
    return {
        "RANK": str(rank), "WORLD_SIZE": str(WORLD), "MIDDLEWATCH_RUN": scene, "MIDDLEWATCH_ATTEMPT": "1",
        "MIDDLEWATCH_SOCKET": str(folder / "agent.sock"), "MIDDLEWATCH_CHECKPOINT_DIR": str(folder / "ck"),
        "MIDDLEWATCH_RESUME_STEP": str(resume),
    }  # fmt: skip


def play(scene: str, rank: int, folder: Path) -> None:
    """Be one rank of a scene. Does not return."""
    code = 1
    try:
        act, resume = SCENES[scene]
        watch = hooks.attach(environment(scene, rank, resume, folder), window_steps=1)
        dist.init_process_group("gloo", rank=rank, world_size=WORLD, store=dist.FileStore(str(folder / scene), WORLD))
        told = act(watch, folder)
        watch.close()
        (folder / f"{scene}.{rank}.json").write_text(json.dumps(told))
        code = 0
    except BaseException:  # noqa: BLE001 (a rank ends here, whatever happened)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for scene in SCENES:
        ranks = []
        for rank in range(WORLD):
            if (pid := os.fork()) == 0:
                play(scene, rank, folder)
            ranks.append(pid)
        for pid in ranks:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
