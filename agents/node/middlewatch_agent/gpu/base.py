"""What the agent asks of a GPU library, small enough that a recording can answer it."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct


class GpuIdentity(Struct, kw_only=True, omit_defaults=True):
    """One GPU as `node.hello` tells it."""

    index: int
    uuid: str
    model: str = ""
    memory_bytes: int | None = None
    pci: str | None = None
    driver: str | None = None

    def told(self) -> dict[str, Any]:
        """Give the known fields."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}


class GpuError(Exception):
    """The library cannot be used or did not answer; the message is for people."""


class GpuSource(Protocol):
    """May block or raise GpuError at any call: never called from the agent's loop."""

    def identify(self) -> Sequence[GpuIdentity]:
        """Give the GPUs of this machine."""

    def read(self) -> Sequence[dict[str, Any]]:
        """Give one reading per GPU, with the fields of `node.health`'s `gpus`."""


class NoGpus:
    """A machine without GPUs."""

    def identify(self) -> Sequence[GpuIdentity]:
        """Give none."""
        return ()

    def read(self) -> Sequence[dict[str, Any]]:
        """Give none."""
        return ()
