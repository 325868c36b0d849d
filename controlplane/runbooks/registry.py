"""Which runbooks there are now, and the code of each action.

The files are looked at again every few seconds, so an edit needs no restart; a file
with a mistake is told and the last sound version of it stays in force. An execution
keeps the definition that it began with, whatever becomes of the file.
"""

import importlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from django.conf import settings

from controlplane.domain.errors import NotFound
from controlplane.domain.recovery.actions import BUILT_IN, Action
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.compiling import compile_all
from controlplane.domain.recovery.document import Document, Problem
from controlplane.domain.recovery.runbook import Runbook
from controlplane.runbooks import files
from controlplane.runbooks.code import BUILT_IN_CODE
from controlplane.runbooks.models import Definition, Execution
from controlplane.runbooks.steps.base import Step

log = logging.getLogger(__name__)

SHIPPED = Path(settings.ROOT) / "runbooks"
LOOK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the files say: the runbooks in force, and the problems of each file that has any."""

    catalog: Catalog
    problems: Mapping[str, list[Problem]]


class _Shelf:
    """Keeps what was loaded and looks for changes at most every `LOOK_EVERY_S`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._seen: tuple[tuple[str, int, int], ...] = ()
        self._looked_at = 0.0
        self.actions, self.code = _actions()

    def now(self) -> Loaded:
        with self._lock:
            if self._loaded is None or time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = time.monotonic()
                self._loaded = self._look()
            return self._loaded

    def _look(self) -> Loaded:
        seen = _stamps(folders())
        if self._loaded is not None and seen == self._seen:
            return self._loaded
        before = self._loaded.catalog.runbooks if self._loaded else {}
        found, self._seen = _load(before, self.actions), seen
        for source, problems in found.problems.items():
            log.error("runbook file %s is not used: %s", source, "; ".join(map(str, problems)))
        return found


def folders() -> tuple[Path, ...]:
    """Return where runbook files lie: ours, and the operator's own."""
    return (SHIPPED, *(Path(folder) for folder in settings.RUNBOOK_FOLDERS))


def _stamps(where: tuple[Path, ...]) -> tuple[tuple[str, int, int], ...]:
    found = []
    for path in files.paths(where):
        try:
            known = path.stat()
        except OSError:
            continue
        found.append((str(path), known.st_mtime_ns, known.st_size))
    return tuple(found)


def _load(before: Mapping[str, Runbook], actions: Mapping[str, Action]) -> Loaded:
    """Load everything anew; a file that is not sound any more keeps its last sound runbook."""
    documents, unreadable = files.read_all(folders())
    compiled = compile_all(documents, actions)
    problems = {**unreadable, **compiled.problems}
    kept = {name: old for name, old in before.items() if old.source in problems}
    return Loaded(Catalog(MappingProxyType({**kept, **compiled.catalog.runbooks})), problems)


def _actions() -> tuple[Mapping[str, Action], Mapping[str, Step]]:
    """Return the known actions and their code: ours, and those of the modules that the operator names."""
    known = {action.name: action for action in BUILT_IN}
    code = dict(BUILT_IN_CODE)
    for name in settings.RUNBOOK_ACTIONS:
        for action, step in importlib.import_module(name).ACTIONS:
            if action.name in known:
                raise ValueError(f"{name}: an action called {action.name} exists already")
            known[action.name], code[action.name] = action, step
    return MappingProxyType(known), MappingProxyType(code)


_shelf: _Shelf | None = None
_opening = threading.Lock()


def _open() -> _Shelf:
    global _shelf  # noqa: PLW0603 - one shelf per process, made when it is first needed
    with _opening:
        if _shelf is None:
            _shelf = _Shelf()
        return _shelf


def loaded() -> Loaded:
    """Return the runbooks in force and the problems of the files."""
    return _open().now()


def catalog() -> Catalog:
    """Return the runbooks in force."""
    return loaded().catalog


def runbook(name: str) -> Runbook:
    """Return a runbook in force by its id; `NotFound` when there is none."""
    found = catalog().runbooks.get(name)
    if found is None:
        raise NotFound(f"no runbook is called {name}")
    return found


def of(execution: Execution) -> Runbook:
    """Return the runbook as it was when the execution began.

    The definition in force is used where it means the same; else the one that was kept.
    """
    current = catalog().runbooks.get(execution.runbook)
    if current is not None and execution.digest in ("", current.digest):
        return current
    kept = Definition.objects.filter(digest=execution.digest).first()
    if kept is None:
        raise NotFound(f"the definition {execution.digest} of {execution.runbook} is not kept any more")
    return thaw(kept.documents, execution.runbook)


def readable(execution: Execution) -> Runbook:
    """Return the same; one that no version here reads any more has a name and no steps.

    So a past night is still shown, and people can end what nobody can carry on.
    """
    try:
        return of(execution)
    except NotFound:
        name = execution.runbook
        return Runbook(id=name, code="", version=execution.version, title=name, summary="", steps=())


def thaw(documents: Mapping[str, str], name: str) -> Runbook:
    """Compile a runbook again from the texts that were kept with it."""
    made = [Document(source, text, files.parse(text)) for source, text in documents.items()]
    found = compile_all(made, _open().actions).catalog.runbooks.get(name)
    if found is None:
        raise NotFound(f"the kept definition of {name} cannot be used by this version")
    return found


def texts(book: Runbook) -> dict[str, str]:
    """Return the texts that a runbook is made of: its own file and all others that it may use."""
    return {book.source: book.text} | {other.source: other.text for other in catalog().runbooks.values()}


def action(name: str) -> Action:
    """Return an action by its name; `NotFound` when there is none."""
    found = _open().actions.get(name)
    if found is None:
        raise NotFound(f"no action is called {name}")
    return found


def built_in() -> Mapping[str, Action]:
    """Return our own actions by name."""
    return {action.name: action for action in BUILT_IN}


def actions() -> Mapping[str, Action]:
    """Return all known actions by name."""
    return _open().actions


def step(name: str) -> Step:
    """Return the code of an action by its name; `NotFound` when there is none."""
    found = _open().code.get(name)
    if found is None:
        raise NotFound(f"no action is called {name}")
    return found
