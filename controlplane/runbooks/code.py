"""The code behind each action that a runbook file may name."""

from collections.abc import Mapping

from controlplane.runbooks.steps.announce import Announce
from controlplane.runbooks.steps.arm_switch import ArmSwitch, DisarmSwitch
from controlplane.runbooks.steps.await_boundary import AwaitBoundary
from controlplane.runbooks.steps.await_person import AwaitPerson
from controlplane.runbooks.steps.await_progress import AwaitProgress
from controlplane.runbooks.steps.await_spares import AwaitSpares
from controlplane.runbooks.steps.base import Step
from controlplane.runbooks.steps.choose_checkpoint import ChooseCheckpoint
from controlplane.runbooks.steps.choose_nodes import ChooseNodes
from controlplane.runbooks.steps.choose_rollback import ChooseRollback
from controlplane.runbooks.steps.close import Close
from controlplane.runbooks.steps.collect import Collect
from controlplane.runbooks.steps.compare_norms import CompareNorms
from controlplane.runbooks.steps.confirm import Confirm
from controlplane.runbooks.steps.drain import Drain
from controlplane.runbooks.steps.drill import AwaitRecovery, CheckDrill, HurtRank
from controlplane.runbooks.steps.fence_nodes import FenceNodes
from controlplane.runbooks.steps.freeze_nodes import FreezeNodes, ThawNodes
from controlplane.runbooks.steps.give_back import GiveBack
from controlplane.runbooks.steps.hold_run import HoldRun, ResumeRun, StopRun
from controlplane.runbooks.steps.keep_out import KeepOut
from controlplane.runbooks.steps.launch import Launch
from controlplane.runbooks.steps.pin_checkpoint import PinCheckpoint, UnpinCheckpoint
from controlplane.runbooks.steps.probe_storage import ProbeStorage
from controlplane.runbooks.steps.queue import HoldJob, KeepQueue, ReleaseJob
from controlplane.runbooks.steps.run_check import RunCheck
from controlplane.runbooks.steps.stop import Stop
from controlplane.runbooks.steps.stop_ranks import StopRanks

BUILT_IN_CODE: Mapping[str, Step] = {
    "announce": Announce(),
    "arm_switch": ArmSwitch(),
    "await_boundary": AwaitBoundary(),
    "await_person": AwaitPerson(),
    "await_progress": AwaitProgress(),
    "await_recovery": AwaitRecovery(),
    "await_spares": AwaitSpares(),
    "check_drill": CheckDrill(),
    "choose_checkpoint": ChooseCheckpoint(),
    "choose_nodes": ChooseNodes(),
    "choose_rollback": ChooseRollback(),
    "close": Close(),
    "compare_norms": CompareNorms(),
    "collect": Collect(),
    "confirm": Confirm(),
    "disarm_switch": DisarmSwitch(),
    "drain": Drain(),
    "fence_nodes": FenceNodes(),
    "freeze_nodes": FreezeNodes(),
    "hold_job": HoldJob(),
    "give_back": GiveBack(),
    "hold_run": HoldRun(),
    "hurt_rank": HurtRank(),
    "keep_out": KeepOut(),
    "keep_queue": KeepQueue(),
    "launch": Launch(),
    "pin_checkpoint": PinCheckpoint(),
    "probe_storage": ProbeStorage(),
    "release_job": ReleaseJob(),
    "resume_run": ResumeRun(),
    "run_check": RunCheck(),
    "stop": Stop(),
    "stop_ranks": StopRanks(),
    "stop_run": StopRun(),
    "thaw_nodes": ThawNodes(),
    "unpin_checkpoint": UnpinCheckpoint(),
}
