"""Run a training script with a saboteur inside: `python sabotage.py SCRIPT ARGUMENTS…`.

Killing and freezing come from outside, but a rank that computes slower, a loss that is
no number, and survivors that do not end cannot be had that way. So the demonstration
starts its unchanged example through this file, which looks for a request in the folder
`MIDDLEWATCH_DEMO_FAULTS` at each step. A request names its attempt; the next one is
healthy. Nothing of the product knows of it.
"""

import json
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

REQUEST = "request.json"
FOLDER = "MIDDLEWATCH_DEMO_FAULTS"


class Saboteur:
    """Does to this rank what the request of its attempt says."""

    def __init__(self, folder: Path, attempt: int, rank: int) -> None:
        """Look for requests in `folder`; ask nobody else who we are."""
        self._path, self._attempt, self._rank = folder / REQUEST, attempt, rank
        self._read_at = -1.0
        self._wanted: dict[str, Any] = {}

    def wanted(self, kind: str) -> dict[str, Any] | None:
        """Give the request of this kind for this attempt, None when there is none."""
        try:
            changed = self._path.stat().st_mtime
        except OSError:
            return None
        if changed != self._read_at:
            self._read_at, self._wanted = changed, json.loads(self._path.read_text(encoding="utf-8"))
        mine = self._wanted.get("kind") == kind and self._wanted.get("attempt") == self._attempt
        return self._wanted if mine else None

    def is_victim(self, request: dict[str, Any]) -> bool:
        """Say whether this rank is the one that the request names."""
        return request.get("rank") == self._rank

    def after_step(self) -> None:
        """Compute a little longer, or die at once, where that is asked for."""
        slow, limbo = self.wanted("slow"), self.wanted("limbo")
        if slow is not None and self.is_victim(slow):
            time.sleep(float(slow["seconds"]))
        if limbo is not None and self.is_victim(limbo):
            os._exit(13)

    def spoil(self, loss: Any) -> Any:
        """Make the loss no number on every rank, where that is asked for."""
        return loss * float("nan") if self.wanted("nan") is not None else loss

    def linger(self) -> None:
        """Stay after a peer's death instead of ending, where that is asked for: neither alive nor gone."""
        if self.wanted("limbo") is not None:
            traceback.print_exc()
            while True:
                time.sleep(3600)


def install(saboteur: Saboteur) -> None:
    """Lay the saboteur's hands on the step and the loss."""
    from middlewatch_agent import hooks  # noqa: PLC0415 - torch is only there in a rank
    from torch.nn import functional  # noqa: PLC0415

    step, loss = hooks.Watch.step, functional.cross_entropy

    def slower_step(self: Any, *arguments: Any, **facts: Any) -> Any:
        saboteur.after_step()
        return step(self, *arguments, **facts)

    def spoilt_loss(*arguments: Any, **options: Any) -> Any:
        return saboteur.spoil(loss(*arguments, **options))

    hooks.Watch.step = slower_step  # type: ignore[method-assign]
    functional.cross_entropy = spoilt_loss


def main() -> None:
    """Become the script, with the saboteur inside when a folder is named."""
    folder = os.environ.get(FOLDER, "")
    saboteur = None
    if folder:
        place = {name: int(os.environ.get(name, "0")) for name in ("MIDDLEWATCH_ATTEMPT", "RANK")}
        saboteur = Saboteur(Path(folder), place["MIDDLEWATCH_ATTEMPT"], place["RANK"])
        install(saboteur)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception:
        if saboteur is not None:
            saboteur.linger()
        raise


if __name__ == "__main__":
    main()
