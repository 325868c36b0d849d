import asyncio
import gzip
import time

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from controlplane.ingest import http
from controlplane.ingest.body import unpack
from controlplane.ingest.http import Problem
from tests.patience import within


@given(st.binary(min_size=1, max_size=2000), st.sampled_from([(b"gzip", gzip.compress), (b"zstd", zstandard.compress)]))
def test_what_was_packed_comes_out_again(plain, packing):
    name, pack = packing
    assert unpack(name, pack(plain)) == plain
    assert unpack(name.upper(), pack(plain), limit=len(plain)) == plain
    with pytest.raises(Problem) as problem:
        unpack(name, pack(plain), limit=len(plain) - 1)
    assert problem.value.status == 413


@given(st.binary(max_size=300), st.sampled_from([b"gzip", b"zstd"]))
def test_any_bytes_unpack_or_are_refused(body, name):
    for text in (body, b"\x1f\x8b\x08\x00" + body, b"(\xb5/\xfd" + body):
        assert outcome(name, text) in ("unpacked", 400, 413)


def outcome(name, text):
    try:
        unpack(name, text)
    except Problem as problem:
        return problem.status
    return "unpacked"


def test_a_zstd_frame_that_claims_gigabytes_is_not_believed():
    frame = bytearray(zstandard.ZstdCompressor().compress(b"x" * 70_000))
    claim = zstandard.get_frame_parameters(bytes(frame)).content_size.to_bytes(4, "little")
    frame = frame.replace(claim, (2_000_000_000).to_bytes(4, "little"), 1)
    began = time.monotonic()
    with pytest.raises(Problem):
        unpack(b"zstd", bytes(frame))
    assert time.monotonic() - began < within(1)


@pytest.mark.parametrize("first", [[], [{"type": "http.request", "body": b"{", "more_body": True}]])
def test_whoever_never_sends_the_body_is_shown_out(monkeypatch, first):
    monkeypatch.setattr(http, "BODY_TIMEOUT_S", 0.05)

    async def receive():
        return first.pop() if first else await asyncio.Event().wait()

    with pytest.raises(Problem) as problem:
        asyncio.run(asyncio.wait_for(http.read_body({"headers": []}, receive, 100), 5.0))
    assert problem.value.status == 408
