"""The shipped runbooks, for tests of the rules that choose among them."""

from pathlib import Path

from controlplane.domain.recovery import choice
from controlplane.domain.recovery.actions import BUILT_IN as ACTIONS
from controlplane.domain.recovery.compiling import compile_all
from controlplane.runbooks import files

FOLDER = Path(__file__).resolve().parents[3] / "runbooks"
BUILT_IN = {action.name: action for action in ACTIONS}
CATALOG = compile_all(files.read_all([FOLDER])[0], BUILT_IN).catalog


def choose(diagnosis, facts, policy):
    """Choose among the shipped runbooks."""
    return choice.choose(diagnosis, facts, policy, CATALOG)
