"""Read a DCP `.metadata` without running anything it names.

The file is a pickle, and a pickle may name any function of the machine to be
called while it is read. The classes that a real one names are few: they are
replaced by empty stand-ins here, everything else is refused. Nothing of torch is
imported, so the read takes milliseconds.
"""

import io
import pickle
from pathlib import PurePosixPath
from typing import Any

MAX_METADATA_BYTES = 64 << 20
MAX_NAME_CHARS = 200


class UnreadableError(Exception):
    """The file is no DCP metadata; the message says what is wrong with it."""


class _Inert:
    """Takes the place of a metadata class: keeps the attributes and does nothing."""

    def __init__(self, *_args: object) -> None:
        """Accept whatever the pickle hands over."""

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            self.__dict__.update({str(name): value for name, value in state.items()})


_DCP = "torch.distributed.checkpoint."
_METADATA_NAMES = (
    "Metadata", "MetadataIndex", "StorageMeta", "TensorStorageMetadata", "BytesStorageMetadata",
    "ChunkStorageMetadata", "TensorProperties", "_MEM_FORMAT_ENCODING",
)  # fmt: skip
_DTYPES = (
    "float64", "float32", "float16", "bfloat16", "complex64", "complex128", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip
ALLOWED: dict[tuple[str, str], Any] = {
    **{(f"{_DCP}metadata", name): _Inert for name in _METADATA_NAMES},
    (f"{_DCP}filesystem", "_StorageInfo"): _Inert,
    ("pathlib", "PosixPath"): PurePosixPath,
    ("pathlib", "PurePosixPath"): PurePosixPath,
    ("torch", "Size"): tuple,
    ("torch.serialization", "_get_layout"): str,
    **{("torch", name): name for name in _DTYPES},
}


class _AllowList(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Give the stand-in of an allowed name. Raises UnpicklingError for every other."""
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"names {module}.{name}"[:MAX_NAME_CHARS]) from None


def needed_bytes(raw: bytes) -> dict[str, int]:
    """How long each shard file must be, by its name: the highest end of what lies in it.

    Raises UnreadableError for anything that is not DCP metadata, or that names a
    file outside its own folder.
    """
    if len(raw) > MAX_METADATA_BYTES:
        raise UnreadableError(f"larger than {MAX_METADATA_BYTES} bytes")
    try:
        entries = list(_AllowList(io.BytesIO(raw)).load().storage_data.values())
    except Exception as error:  # a hostile pickle may raise anything
        raise UnreadableError(str(error)[:MAX_NAME_CHARS] or type(error).__name__) from error
    needed: dict[str, int] = {}
    for entry in entries:
        name, end = _place(entry)
        needed[name] = max(needed.get(name, 0), end)
    return needed


def _place(entry: Any) -> tuple[str, int]:
    name, offset, length = (getattr(entry, part, None) for part in ("relative_path", "offset", "length"))
    if not isinstance(name, str) or not isinstance(offset, int) or not isinstance(length, int):
        raise UnreadableError("an entry lacks relative_path, offset or length")
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise UnreadableError(f"an entry points outside its folder: {name!r}"[:MAX_NAME_CHARS])
    if offset < 0 or length < 0:
        raise UnreadableError(f"an entry of {name!r} has a negative place")
    return name, offset + length
