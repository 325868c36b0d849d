"""What the demonstration measured, as a table for people and JSON for machines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.domain.diagnosis.classes import class_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """One fault and what became of it; times are seconds from the injection."""

    kind: str
    klass: str
    detected_s: float | None
    decided_s: float | None
    resumed_s: float | None
    steps_lost: int | None
    unattended: bool

    @property
    def recovered(self) -> bool:
        """Whether training made new steps again without a person."""
        return self.resumed_s is not None and self.unattended

    def as_json(self) -> dict[str, object]:
        """Return the row with `class` spelled as in the wire vocabulary."""
        row = asdict(self)
        row["class"] = row.pop("klass")
        return row


def write(
    path: Path, rows: Sequence[FaultReport], *, goodput: float, chronicle: str, told: Sequence[str] | None = None
) -> None:
    """Write the report file of `--report`; `told` are the people told of it, None where nobody keeps count."""
    body = {"faults": [row.as_json() for row in rows], "goodput": goodput, "chronicle": chronicle}
    if told is not None:
        body["told"] = list(told)
    path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def table(rows: Sequence[FaultReport]) -> str:
    """Return the closing table."""
    head = ("fault", "named", "detected", "decided", "resumed", "steps lost", "unattended")
    body = [
        (
            row.kind,
            class_of(row.klass).title if row.klass else "nothing",
            _seconds(row.detected_s),
            _seconds(row.decided_s),
            _seconds(row.resumed_s),
            "–" if row.steps_lost is None else str(row.steps_lost),
            "yes" if row.unattended else "no",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    rule = "  ".join("─" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *body)]
    return "\n".join([lines[0], rule, *lines[1:]])


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
