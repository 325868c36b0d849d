"""Write the lock files from what is installed: `make lock` after changing an `.in` file.

Each `.in` file names what we ask for; its lock file pins those and everything
they need, less what an earlier lock file already pins. So production installs
`control` alone, and every machine gets the same versions.
"""

import re
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
ORDER = ("control", "embedded", "build", "torch", "dev")


def asked(name: str) -> list[Requirement]:
    """Return the requirements of an `.in` file."""
    lines = (line.split("#")[0].strip() for line in (HERE / f"{name}.in").read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def closure(wanted: list[Requirement]) -> dict[str, str]:
    """Return everything that the requirements need, as version by canonical name."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            installed = distribution(name)
            found[name] = re.sub(r"\+.*", "", installed.version)
            needs = (Requirement(text) for text in installed.requires or [])
            wanted += [need for need in needs if not need.marker or need.marker.evaluate({"extra": extra})]
    return found


def main() -> None:
    """Write all lock files."""
    earlier: set[str] = set()
    for name in ORDER:
        pins = {package: version for package, version in closure(asked(name)).items() if package not in earlier}
        earlier |= pins.keys()
        lines = [f"{package}=={version}\n" for package, version in sorted(pins.items())]
        (HERE / "lock" / f"{name}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
