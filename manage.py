#!/usr/bin/env python
"""Entry point of every Middlewatch management command."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from controlplane.embedded import running
from controlplane.embedded.errors import CannotStart

STARTS_ITS_OWN = ("serve", "demo")
IN_A_SCRATCH_DATABASE = ("replay",)


def main() -> None:
    """Run the command named on the command line, against what runs from the home unless an address is given."""
    place: AbstractContextManager[None] = nullcontext()
    if set(sys.argv[1:2]) & set(IN_A_SCRATCH_DATABASE):
        from controlplane.embedded import scratch  # noqa: PLC0415 - other commands need none of it

        place = scratch.serving(os.environ, Path(__file__).resolve().parent)
    try:
        with place:
            execute()
    except CannotStart as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def execute() -> None:
    """Let Django run the command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")
    if not set(sys.argv[1:2]) & {*STARTS_ITS_OWN, *IN_A_SCRATCH_DATABASE}:
        running.join(os.environ)
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - settings read the environment
    from django.db import OperationalError  # noqa: PLC0415

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        sys.exit(f"PostgreSQL does not answer ({error}). Start the control plane by `make serve`, or set DATABASE_URL.")


if __name__ == "__main__":
    main()
