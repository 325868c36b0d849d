"""An act of automation in a few words."""

from collections.abc import Mapping
from typing import Any

from controlplane.web.present import words

_PEOPLE = {"page": "call for a person", "notify": "leave a note"}


def told(do: str, node: str | None, args: Mapping[str, Any]) -> str:
    """Write what was done: `restart from step 81 400, without n07`."""
    about = " ".join(part for part in (f"node {node}" if node else "", _details(args)) if part)
    return f"{_PEOPLE.get(do, do)} {about}".strip()


def _details(args: Mapping[str, Any]) -> str:
    said = []
    if args.get("with"):
        said.append(f"with {args['with']}")
    if args.get("step") is not None:
        said.append(f"from step {words.number(args['step'])}" if args["step"] else "from the beginning")
    if args.get("exclude"):
        said.append(f"without {', '.join(map(str, args['exclude']))}")
    if args.get("skip"):
        said.append(f"skipping batches {args['skip'][0]} to {args['skip'][1]}")
    return ", ".join(said)
