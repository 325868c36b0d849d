#!/usr/bin/env python
"""Entry point of every Middlewatch management command."""

import os
import sys

from controlplane.embedded import running

STARTS_ITS_OWN = ("serve", "demo")


def main() -> None:
    """Run the command named on the command line, against what runs from the home unless an address is given."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.base")
    if not set(sys.argv[1:2]) & set(STARTS_ITS_OWN):
        running.join(os.environ)
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - settings read the environment
    from django.db import OperationalError  # noqa: PLC0415

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        sys.exit(f"PostgreSQL does not answer ({error}). Start the control plane by `make serve`, or set DATABASE_URL.")


if __name__ == "__main__":
    main()
