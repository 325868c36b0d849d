"""Look after many things in one go, so that one that cannot be looked after harms no other."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


def each(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call for each of `items` and return what came back; what raises is logged, and the others go on.

    A database that is away concerns all of them, so that is raised.
    """
    found = []
    for item in items:
        try:
            found.append(call(item))
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("%s could not be looked after", item)
    return found
