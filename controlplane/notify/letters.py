"""A message as transports take it, and how a transport is called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.notify import text
from controlplane.domain.notify.retrying import Answer
from controlplane.domain.notify.text import Told

TEST_URGENCY = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message in words; `key` is the same at every try, `thread` for all that belongs together."""

    key: str
    thread: str
    kind: str
    loud: bool
    told: Sequence[Told]
    more_url: str

    @property
    def push(self) -> str:
        """The first line."""
        return text.first_line(self.told)

    @property
    def body(self) -> str:
        """The whole text."""
        return text.body(self.told, self.more_url)

    @property
    def severity(self) -> str:
        """The worst severity."""
        return text.severity(self.told)

    @property
    def url(self) -> str:
        """Where to look: the one subject, or the list."""
        return self.told[0].url if len(self.told) == 1 else self.more_url


Send = Callable[[Mapping[str, str], Letter, datetime, list[str]], Answer]
"""Send a letter with the values of a transport; the last argument is whom an administrator allows."""
