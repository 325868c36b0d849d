"""Make runbooks of files; what is wrong is told with its line, and nothing half-read is used.

Every action exists, every argument is of the right kind and inside its limits, every
fact that a step needs is given by a step before it, and included runbooks form no
cycle. `reading` reads each file by itself; here they are joined.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.domain.recovery.action import Action
from controlplane.domain.recovery.catalog import Catalog
from controlplane.domain.recovery.document import Document, Leaf, Problem
from controlplane.domain.recovery.reading import MAX_STEPS, Draft, read
from controlplane.domain.recovery.runbook import Runbook, StepSpec
from controlplane.domain.recovery.values import BadError, listed

MAX_RUNBOOKS = 200
MAX_DEPTH_OF_USE = 8

INPUTS = frozenset({"attempt"})
"""Facts that every execution has from its start."""
GATES = frozenset({"confirm", "await_boundary"})
"""Actions that wait until the trouble is certain."""
CERTAIN = frozenset({"sure", "confirmed", "down", "ended"})
"""Conditions under which it is certain at the choice."""
GATED = frozenset({"stop", "stop_ranks", "fence_nodes", "drain", "keep_out", "launch"})
"""Actions that nothing but a certain trouble justifies."""


@dataclass
class Compiled:
    """What came of all files: the catalog of the good ones, and the problems by file."""

    catalog: Catalog
    problems: dict[str, list[Problem]] = field(default_factory=dict)


def compile_all(documents: Sequence[Document], actions: Mapping[str, Action]) -> Compiled:
    """Compile files against the known actions. A file with a problem is left out, the others stand."""
    drafts, problems = _drafts(documents[:MAX_RUNBOOKS], actions)
    for document in documents[MAX_RUNBOOKS:]:
        problems[document.source] = [Problem(1, "", f"more than {MAX_RUNBOOKS} runbooks")]
    runbooks: dict[str, Runbook] = {}
    for name, draft in drafts.items():
        try:
            runbooks[name] = _finished(draft, drafts)
        except BadError as bad:
            problems[draft.document.source] = [bad.problem]
    return Compiled(Catalog(runbooks), problems)


def _drafts(
    documents: Sequence[Document], actions: Mapping[str, Action]
) -> tuple[dict[str, Draft], dict[str, list[Problem]]]:
    """Read each file by itself; the first of two runbooks of one id stands."""
    drafts: dict[str, Draft] = {}
    problems: dict[str, list[Problem]] = {}
    for document in documents:
        draft, found = read(document, actions)
        if draft and draft.runbook.id in drafts:
            other = drafts[draft.runbook.id].document.source
            found.append(Problem(document.root.line, "runbook", f"{draft.runbook.id} is also in {other}"))
        if found or draft is None:
            problems[document.source] = sorted(found)
        else:
            drafts[draft.runbook.id] = draft
    return drafts, problems


def _finished(draft: Draft, drafts: Mapping[str, Draft]) -> Runbook:
    steps = tuple(_expanded(draft, drafts, (draft.runbook.id,)))
    root = draft.document.root
    if len(steps) > MAX_STEPS:
        raise BadError(root, "steps", f"{len(steps)} steps with those of other runbooks; {MAX_STEPS} are allowed")
    names = [step.name for step in steps]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadError(root, "steps", f"{listed(twice)} stands twice; give one of them another `name`")
    runbook = replace(draft.runbook, steps=steps)
    if runbook.answers or runbook.start is not None:
        _check_inputs(runbook)
    if runbook.answers:
        _check_gate(runbook)
    return replace(runbook, digest=_digest(runbook))


def _expanded(draft: Draft, drafts: Mapping[str, Draft], chain: tuple[str, ...]) -> Iterator[StepSpec]:
    """Yield the steps with those of the runbooks that it uses; each has the line where this file names it."""
    for part in draft.parts:
        if isinstance(part, StepSpec):
            yield part
            continue
        if part.runbook in chain:
            raise BadError(part.tree, "use", f"a cycle: {' uses '.join((*chain, part.runbook))}")
        if part.runbook not in drafts:
            raise BadError(part.tree, "use", f"no sound runbook is called {part.runbook}")
        if len(chain) > MAX_DEPTH_OF_USE:
            raise BadError(part.tree, "use", f"runbooks use each other deeper than {MAX_DEPTH_OF_USE}")
        used = _expanded(drafts[part.runbook], drafts, (*chain, part.runbook))
        yield from (replace(step, line=part.tree.line) for step in used)


def _check_inputs(runbook: Runbook) -> None:
    """A runbook that starts by itself has every input; one that others use may get some from them."""
    known = INPUTS | frozenset(runbook.start or ())
    for step in runbook.steps:
        missing = step.action.needs - known
        if missing:
            raise _bad(step, f"{step.name} needs {listed(missing)}, which no earlier step gives")
        known |= step.action.gives


def _check_gate(runbook: Runbook) -> None:
    """What starts without a person stops nothing and takes no node out before the trouble is certain."""
    if all(CERTAIN & set(answer.when) for answer in runbook.answers):
        return
    for step in runbook.steps:
        if step.action.name in GATES:
            return
        if step.action.name in GATED:
            raise _bad(step, f"{step.name} comes before any of {listed(GATES)} has made the trouble certain")


def _bad(step: StepSpec, why: str) -> BadError:
    return BadError(Leaf(None, step.line), "steps", why)


def _digest(runbook: Runbook) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of what the runbook means, whatever its layout."""
    meaning = {
        "id": runbook.id, "version": runbook.version, "mode": runbook.mode, "priority": runbook.priority,
        "enabled": runbook.enabled, "start": runbook.start and sorted(runbook.start),
        "answers": [(answer.klass, answer.when, answer.asks) for answer in runbook.answers],
        "limits": [runbook.limits.uses, runbook.limits.uses_s, runbook.limits.nodes, runbook.limits.spares],
        "steps": [
            (step.name, step.action.name, step.limit_s, step.retries, step.optional, step.undo, dict(step.args))
            for step in runbook.steps
        ],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, default=str).encode()).hexdigest()[:16]
