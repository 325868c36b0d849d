"""Unpack what agents compressed, never further than the limit.

A few kilobytes can unpack to gigabytes, and a zstd frame may claim any size it
likes, so output is drawn in bounded pieces and no header is believed.
"""

import io
import zlib

import zstandard
from middlewatch_wire.limits import MAX_UNPACKED_BYTES

from controlplane.ingest.http import Problem

ENCODINGS = ("identity", "gzip", "zstd")
MAX_WINDOW_BYTES = 8 << 20
"""Memory that a zstd frame may ask for."""
_GZIP = 31


def unpack(encoding: bytes | None, body: bytes, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """Return the plain body: 415 for an unknown encoding, 413 above `limit`, 400 when damaged."""
    name = (encoding or b"identity").strip().lower()
    if name == b"identity":
        return body
    if name == b"gzip":
        return _gunzip(body, limit)
    if name == b"zstd":
        return _unzstd(body, limit)
    raise Problem(415, "unknown_encoding", f"use one of {', '.join(ENCODINGS)}")


def _gunzip(body: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise _damaged(error) from error
    if len(plain) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise _damaged("not exactly one whole gzip member")
    return plain


def _unzstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    try:
        with unpacker.stream_reader(io.BytesIO(body), read_across_frames=False) as reader:
            plain = reader.read(limit + 1)
            whole = len(plain) > limit or not reader.read(1)
    except zstandard.ZstdError as error:
        raise _damaged(error) from error
    if len(plain) > limit:
        raise _too_large(limit)
    if not whole or not plain:
        raise _damaged("not exactly one whole zstd frame")
    return plain


def _damaged(why: object) -> Problem:
    return Problem(400, "malformed", f"the body cannot be unpacked: {why}", field="body", index=None)


def _too_large(limit: int) -> Problem:
    return Problem(413, "too_large", f"the unpacked body is larger than {limit} bytes")
