"""Take names out of a recording without taking its meaning: the same name always becomes the same other one."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

MACHINE = frozenset({"machine_id", "board_serial", "provider_id", "boot_id", "hostname", "serial"})
"""Fields that name a machine whatever they hold."""
DIGITS = 12
_MARKS = re.compile(r"GPU-[0-9a-fA-F-]{8,}|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")
"""GPU numbers, and addresses of networks and their cards."""


class Pseudonyms:
    """Other names for nodes, runs, people, machines, GPUs and addresses; words of log lines are kept."""

    def __init__(self, nodes: Iterable[str], runs: Iterable[str], people: Iterable[str] = ()) -> None:
        """Prepare names for these nodes, runs and people; another recording gets others for what is hashed."""
        self._salt = secrets.token_bytes(16)
        self._names = {name: f"node-{place:04d}" for place, name in enumerate(sorted(nodes))}
        self._names |= {name: f"run-{place:02d}" for place, name in enumerate(sorted(runs))}
        self._people = {name: f"person-{place:02d}" for place, name in enumerate(sorted(set(people)))}
        longest_first = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w-])(?:{'|'.join(longest_first) or '(?!)'})(?![\w-])")
        self._text = lru_cache(maxsize=4096)(self._replaced)

    def name(self, name: str) -> str:
        """Give the other name of a node or run."""
        return self._names.get(name, name)

    def of(self, value: Any, field: str = "") -> Any:
        """Give `value` with every name in it replaced."""
        if isinstance(value, str):
            return self._digest(value) if field in MACHINE and value else self._text(value)
        if isinstance(value, dict) and "operator" in value:
            said = self.of(value["operator"])
            return {**self.of({"t": value["t"]}), "operator": {**said, "name": self._people[value["operator"]["name"]]}}
        if isinstance(value, dict):
            return {self._text(key): self.of(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.of(inner, field) for inner in value]
        return value

    def _replaced(self, text: str) -> str:
        marked = _MARKS.sub(lambda found: self._mark(found[0]), text)
        return self._known.sub(lambda found: self._names[found[0]], marked)

    def _mark(self, mark: str) -> str:
        return f"GPU-{self._digest(mark)}" if mark.startswith("GPU-") else f"address-{self._digest(mark)[:6]}"

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(text.encode(), key=self._salt).hexdigest()[:DIGITS]
