"""Which runbooks exist, and the code of each of their steps."""

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.drain_at_save import DRAIN_AT_SAVE
from controlplane.domain.recovery.restart_from_checkpoint import RESTART_FROM_CHECKPOINT
from controlplane.domain.recovery.roll_back import ROLL_BACK
from controlplane.domain.recovery.runbook import Runbook
from controlplane.domain.recovery.stop_and_ask import STOP_AND_ASK
from controlplane.runbooks.steps.await_boundary import AwaitBoundary
from controlplane.runbooks.steps.await_progress import AwaitProgress
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.steps.choose_checkpoint import ChooseCheckpoint
from controlplane.runbooks.steps.choose_nodes import ChooseNodes
from controlplane.runbooks.steps.choose_rollback import ChooseRollback
from controlplane.runbooks.steps.close import Close
from controlplane.runbooks.steps.collect import Collect
from controlplane.runbooks.steps.confirm import Confirm
from controlplane.runbooks.steps.drain import Drain
from controlplane.runbooks.steps.launch import Launch
from controlplane.runbooks.steps.stop import Stop

RUNBOOKS: Mapping[str, Runbook] = MappingProxyType({
    runbook.id: runbook for runbook in (RESTART_FROM_CHECKPOINT, DRAIN_AT_SAVE, ROLL_BACK, STOP_AND_ASK)
})  # fmt: skip
STEPS: Mapping[str, Step] = MappingProxyType({
    "collect": Collect(),
    "confirm": Confirm(),
    "await_boundary": AwaitBoundary(),
    "drain": Drain(),
    "stop": Stop(),
    "choose_checkpoint": ChooseCheckpoint(),
    "choose_rollback": ChooseRollback(),
    "choose_nodes": ChooseNodes(),
    "launch": Launch(),
    "await_progress": AwaitProgress(),
    "close": Close(),
})  # fmt: skip


def runbook(name: str) -> Runbook:
    """Return a runbook by its id; `NotFound` when there is none."""
    if name not in RUNBOOKS:
        raise NotFound(f"no runbook is called {name}")
    return RUNBOOKS[name]


def step(name: str) -> Step:
    """Return the code of a step by its name; `NotFound` when there is none."""
    if name not in STEPS:
        raise NotFound(f"no runbook step is called {name}")
    return STEPS[name]
