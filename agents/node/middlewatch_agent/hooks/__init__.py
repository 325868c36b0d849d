"""Training hooks: a few lines in a torch loop that tell Middlewatch what a rank does.

    watch = hooks.attach()
    with watch.phase("restore"):
        step = watch.checkpoints.load(state)
    for step in …:
        …
        watch.step(step, loss=loss, tokens=tokens)
        if watch.stop_wanted():
            break
        if watch.save_wanted() or step % 1000 == 0:
            watch.checkpoints.async_save(state, step)
    watch.checkpoints.save(state, step)
    hooks.leave(watch)

They never block or crash the training. Without the environment of a watched rank
(docs/architecture.md) everything is a no-op. Torch is imported only by what needs
it, so a loop without torch can report its steps too.
"""

import os
import sys
from collections.abc import Mapping

from middlewatch_agent.hooks import errors, place, worker
from middlewatch_agent.hooks.reporter import Reporter
from middlewatch_agent.hooks.watch import Phase, Watch
from middlewatch_agent.hooks.windows import WINDOW_STEPS

__all__ = ["STOPPED_BY_SWITCH", "Phase", "Watch", "attach", "leave"]

STOPPED_BY_SWITCH = 75
"""Exit code of a rank that ended because it was asked to: the training is not finished."""


def attach(environ: Mapping[str, str] | None = None, *, window_steps: int = WINDOW_STEPS) -> Watch:
    """Begin to report what this rank does; call it once, after `import torch` where there is torch.

    Also answers requests for stacks (`hooks.worker`) and leaves an uncaught
    exception for the shim (`hooks.errors`).
    """
    here = place.read(os.environ if environ is None else environ)
    if here.socket is None:
        return Watch(here, None)
    if here.worker_socket is not None:
        worker.start(here.worker_socket)
    if here.error_file is not None:
        errors.leave_in(here.error_file)
    reporter = Reporter(here.socket, run=here.run, attempt=here.attempt, rank=here.rank)
    return Watch(here, reporter, window_steps=window_steps)


def leave(watch: Watch) -> None:
    """End a rank whose training is complete, or was asked to stop. Does not return.

    Waits for a save under way, then for all ranks, and exits without running
    destructors: a process group that is torn down while a peer still talks can
    deadlock at exit.
    """
    watch.close()
    if "torch" in sys.modules:
        import torch.distributed as dist  # noqa: PLC0415 (torch only where it is used)

        if dist.is_initialized():
            dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(STOPPED_BY_SWITCH if watch.stopping else 0)
