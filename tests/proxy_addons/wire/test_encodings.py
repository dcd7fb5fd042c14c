"""Content encodings: any split, any damage, any size."""

from __future__ import annotations

import gzip
import importlib
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.proxy_addons.wire.encodings import BodyDecoder, decode_body

brotli: Any = importlib.import_module("brotli")


def bare_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


def compress_br(data: bytes) -> bytes:
    body: bytes = brotli.compress(data, quality=2)
    return body


def zstd_without_size(data: bytes) -> bytes:
    frame = zstandard.ZstdCompressor().compressobj()
    return frame.compress(data) + frame.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "two gzip members": ("x-gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    "gzip padded": ("gzip", lambda data: gzip.compress(data) + bytes(7)),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare_deflate),
    "br": ("br", compress_br),
    "zstd": ("zstd", zstandard.compress),
    "zstd without size": ("zstd", zstd_without_size),
    "two zstd frames": (
        "zstd",
        lambda data: zstandard.compress(data[:5]) + zstandard.compress(data[5:]),
    ),
    "br in gzip": ("br, GZIP", lambda data: gzip.compress(compress_br(data))),
}
encoders = pytest.mark.parametrize("name", ENCODERS)
few = settings(max_examples=40, deadline=None)
"""There are many encoders."""


@encoders
@few
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_any_split_gives_the_body(name: str, data: bytes, cuts: list[int]) -> None:
    encoding, encode = ENCODERS[name]
    body = encode(data)
    borders = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    decoder = BodyDecoder(encoding)
    got = b"".join(decoder.feed(body[a:b]) for a, b in itertools.pairwise(borders))
    assert got == data
    assert decoder.problem is None


@encoders
@few
@given(data=st.binary(min_size=2000, max_size=4000), share=st.floats(0, 1))
def test_what_came_before_a_break_is_kept(name: str, data: bytes, share: float) -> None:
    encoding, encode = ENCODERS[name]
    body = encode(data)
    got, problem = decode_body(body[: int(len(body) * share)], encoding)
    assert data.startswith(got)
    assert problem is None


@encoders
@few
@given(body=st.binary(max_size=200))
def test_bytes_that_are_not_what_they_say_raise_nothing(name: str, body: bytes) -> None:
    got, problem = decode_body(body, ENCODERS[name][0], max_bytes=1 << 20)
    assert problem in (None, "damaged encoding", "too long")
    assert len(got) <= 1 << 20


@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate", "br", "zstd", "br in gzip"])
def test_a_bomb_is_cut_at_the_bound(name: str) -> None:
    encoding, encode = ENCODERS[name]
    got, problem = decode_body(encode(bytes(20 << 20)), encoding, max_bytes=10 << 20)
    assert problem == "too long"
    assert len(got) <= 10 << 20


def test_an_unknown_encoding_is_told_and_gives_nothing() -> None:
    assert decode_body(b"abc", "snappy") == (b"", "unknown encoding")
    assert decode_body(b"abc", None) == (b"abc", None)


def test_damage_in_the_middle_keeps_what_was_decoded() -> None:
    body = bytearray(gzip.compress(b"first " * 100) + gzip.compress(b"second"))
    body[-15] ^= 0xFF
    got, problem = decode_body(bytes(body), "gzip")
    assert got.startswith(b"first " * 100)
    assert problem == "damaged encoding"
