"""Who renders a topic.

The live layer sits below the pages and must not import them, so the pages
register how each kind of topic looks, and every process that commits a change
(web, ingest, worker) renders with the same functions.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

STATE = "state"
CHRONICLE = "chronicle"
SERIES = "series"
REGIONS = (STATE, CHRONICLE, SERIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What open pages need to be up to date again.

    `content` is HTML made of out-of-band elements, the same for every viewer.
    `seq` is the number of the newest chronicle entry inside, `newest` of the
    newest there is, so a page notices what it lacks. `series` holds numbers for
    charts; they swap nothing.
    """

    content: str = ""
    seq: int = 0
    newest: int = 0
    series: Mapping[str, Any] | None = None


Renderer = Callable[[str, Collection[str], int | None], Fragment]
Guard = Callable[[AbstractBaseUser | AnonymousUser, str], bool]

_renderers: dict[str, Renderer] = {}
_guards: dict[str, Guard] = {}
_companions: dict[str, tuple[str, ...]] = {}


def register(kind: str, renderer: Renderer, *, allows: Guard, also: tuple[str, ...] = ()) -> None:
    """Let `renderer(subject, regions, since)` render topics of this kind.

    `since` None asks for the newest chronicle entry alone; a number asks for
    every entry after it. `allows(user, subject)` says who may follow the topic.
    A touch of this kind touches the state of the topics in `also` too.
    """
    _renderers[kind] = renderer
    _guards[kind] = allows
    _companions[kind] = also


def render(kind: str, subject: str, regions: Collection[str], since: int | None) -> Fragment:
    """Render the regions of a topic as they are committed now."""
    return _renderers[kind](subject, regions, since)


def companions(kind: str) -> tuple[str, ...]:
    """Topics that change whenever one of this kind does."""
    return _companions.get(kind, ())


def may_follow(user: AbstractBaseUser | AnonymousUser, kind: str, subject: str) -> bool:
    """Whether this person may follow this topic; nobody may follow what nobody renders."""
    guard = _guards.get(kind)
    return guard is not None and guard(user, subject)


def knows(kind: str) -> bool:
    """Whether anybody renders this kind."""
    return kind in _renderers
