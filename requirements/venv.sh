#!/bin/sh
# Make .venv with the first Python that is new enough. An environment that still works is kept.
set -eu

if .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    exit 0
fi
for candidate in python3.11 python3 python3.12 python3.13; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "Making a virtual environment in .venv with $("$candidate" --version)…"
        exec "$candidate" -m venv --clear .venv
    fi
done
echo "Middlewatch needs Python 3.11 or newer, found as python3.11 or python3." >&2
exit 1
