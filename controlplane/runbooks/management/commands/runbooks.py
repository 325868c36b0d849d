"""Look at the runbooks, check their files, start one, answer what one asks.

`manage.py runbooks check` is for the operator's own repository: it prints
`file:line: field: reason` as compilers do and fails when anything is wrong.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.domain.errors import MiddlewatchError
from controlplane.domain.recovery import reference
from controlplane.domain.recovery.compiling import compile_all
from controlplane.domain.recovery.conditions import CONDITIONS
from controlplane.domain.recovery.document import Problem
from controlplane.domain.recovery.runbook import Runbook, StepSpec
from controlplane.runbooks import answering, files, registry, starting
from controlplane.runbooks.models import Definition
from controlplane.runbooks.queries import execution_numbered
from controlplane.runs.queries import run_named


class Command(BaseCommand):
    help = "Check, list, show, start and answer runbooks."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        deeds = parser.add_subparsers(dest="deed")
        check = deeds.add_parser("check", help="check every file; exit status 1 when one is not sound")
        check.add_argument("folders", nargs="*", type=Path, help="further folders with files of your own")
        deeds.add_parser("list", help="list the runbooks in force")
        deeds.add_parser("show", help="show one, step by step").add_argument("id")
        deeds.add_parser("diff", help="compare with the version that was used last").add_argument("id")
        deeds.add_parser("reference", help="write the tables of a document").add_argument("document", type=Path)
        _add_person(deeds.add_parser("start", help="start one on a run"), ("id", "run"))
        _add_person(deeds.add_parser("answer", help="answer what an execution asks"), ("execution", "answer"))

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            getattr(self, f"_{options['deed'] or 'list'}")(options)
        except MiddlewatchError as error:
            raise CommandError(str(error)) from None

    def _check(self, options: dict[str, Any]) -> None:
        folders = [*registry.folders(), *options["folders"]]
        documents, problems = files.read_all(folders)
        found = compile_all(documents, registry.actions())
        lines = list(_lines({**problems, **found.problems}))
        for line in lines:
            self.stderr.write(line)
        if lines:
            raise CommandError(f"{len(lines)} mistakes; {len(found.catalog.runbooks)} runbooks are sound")
        self.stdout.write(f"{len(found.catalog.runbooks)} runbooks, all sound")

    def _list(self, _options: dict[str, Any]) -> None:
        for one in sorted(registry.catalog().runbooks.values(), key=lambda one: (one.code, one.id)):
            self.stdout.write(f"{one.code:<6} {one.id:<24} v{one.version:<3} {_use(one):<28} {one.title}")

    def _show(self, options: dict[str, Any]) -> None:
        one = registry.runbook(options["id"])
        self.stdout.write(f"{one.title} ({one.code}, {one.id}, version {one.version}, {one.digest})\n{one.summary}\n")
        for line in [*_answers(one), *(_step(number, step) for number, step in enumerate(one.steps, 1))]:
            self.stdout.write(line)

    def _diff(self, options: dict[str, Any]) -> None:
        one = registry.runbook(options["id"])
        kept = Definition.objects.filter(runbook=one.id).exclude(digest=one.digest).order_by("-kept_at").first()
        if kept is None:
            self.stdout.write(f"no other version of {one.id} was ever used")
            return
        old, new = kept.text.splitlines(), one.text.splitlines()
        for line in unified_diff(old, new, f"version {kept.version}", f"version {one.version}", lineterm=""):
            self.stdout.write(line)

    def _reference(self, options: dict[str, Any]) -> None:
        path: Path = options["document"]
        shipped = compile_all(files.read_all([registry.SHIPPED])[0], registry.actions()).catalog.runbooks
        path.write_text(reference.written(path.read_text(), reference.tables(registry.built_in(), CONDITIONS, shipped)))

    def _start(self, options: dict[str, Any]) -> None:
        given = dict(_pair(text) for text in options["inputs"])
        made = starting.start(options["id"], run_named(options["run"]), options["by"], datetime.now(UTC), given)
        self.stdout.write(f"execution {made.pk} of {made.runbook}, recorded as incident {made.incident_id}")

    def _answer(self, options: dict[str, Any]) -> None:
        execution = execution_numbered(int(options["execution"]))
        answering.answer(execution, options["answer"], options["by"], datetime.now(UTC), " ".join(options["inputs"]))
        self.stdout.write(f"answered “{options['answer']}”")


def _add_person(parser: ArgumentParser, names: Sequence[str]) -> None:
    for name in names:
        parser.add_argument(name)
    parser.add_argument("inputs", nargs="*", help="NAME=VALUE for start; a note for answer")
    parser.add_argument("--by", required=True, help="in whose name")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"“{text}” is not NAME=VALUE")
    return name, value


def _lines(problems: dict[str, list[Problem]]) -> Sequence[str]:
    return [
        f"{source}:{one.line}: {f'{one.field}: ' if one.field else ''}{one.why}"
        for source, found in sorted(problems.items()) for one in found
    ]  # fmt: skip


def _use(one: Runbook) -> str:
    if not one.enabled:
        return "switched off"
    parts = [f"{len(one.answers)} answers"] * bool(one.answers) + ["a person starts it"] * (one.start is not None)
    return ", ".join(parts) or "used by others"


def _answers(one: Runbook) -> list[str]:
    lines = [f"answers {a.klass}{' when ' if a.when else ''}{' and '.join(a.when)}" for a in one.answers]
    asked = [f"asks for {name}: {param.about}" for name, param in (one.start or {}).items()]
    return [*lines, *asked, ""]


def _step(number: int, step: StepSpec) -> str:
    more = [f"{step.retries + 1} tries"] * bool(step.retries) + ["may be skipped"] * step.optional
    more += [f"undo: {step.undo}"] * bool(step.undo)
    return f"{number:>2}. {step.name:<18} {', '.join([reference.time(step.limit_s), *more]):<28} {step.action.about}"
