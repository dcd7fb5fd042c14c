"""Content encodings undone piece by piece: gzip, deflate, br, zstd, and chains of them.

A body that breaks off, turns out to be something else or grows without end gives what came before,
and the decoder says why it stopped. Output is bounded, however small the input is.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Protocol, TypeAlias

import zstandard

MAX_BODY_BYTES = 256 * 1024 * 1024
"""Decoded bytes of one body; what goes beyond is let go."""

Problem: TypeAlias = Literal["unknown encoding", "damaged encoding", "too long"]
"""Why a body, or its rest, could not be decoded."""

_ZSTD_STEP = 1024
_BROTLI_STEP = 16
"""Input bytes given at a time to decoders that cannot bound their output. The densest input there
is (zeros) then gives some 30 megabytes at once."""
_ZSTD_WINDOW = 128 * 1024 * 1024


class _Stage(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    """gzip (several members too) or deflate, with or without zlib's own header."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(31 if gzip else 15)
        self._first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._first and not self._gzip and data:
            # "deflate" means zlib's format, but some servers send it bare.
            self._first = False
            if data[0] & 0x0F != 8:
                self._inflate = zlib.decompressobj(-15)
        while data:
            if self._inflate.eof:
                if not self._gzip or not (data := data.lstrip(b"\0")):
                    return
                self._inflate = zlib.decompressobj(31)
            yield self._inflate.decompress(data, 1 << 20)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data


class _Zstd:
    """One frame after another, with or without their sizes."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = self._context.decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_STEP):
            piece = data[start : start + _ZSTD_STEP]
            while piece:
                yield self._frame.decompress(piece)
                piece = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = self._context.decompressobj()


class _Brotli:
    def __init__(self) -> None:
        # Comes with mitmproxy; where neither is installed, br is an unknown encoding.
        self._decoder: Any = importlib.import_module("brotli").Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _BROTLI_STEP):
            yield self._decoder.process(data[start : start + _BROTLI_STEP])


_STAGES: dict[str, Callable[[], _Stage]] = {
    "gzip": lambda: _Zlib(gzip=True),
    "x-gzip": lambda: _Zlib(gzip=True),
    "deflate": lambda: _Zlib(gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}


class BodyDecoder:
    """Undoes a `content-encoding` header as bytes come.

    Once `problem` is set nothing more is decoded; what was, stands.
    """

    def __init__(self, encoding: str | None, max_bytes: int = MAX_BODY_BYTES) -> None:
        self.problem: Problem | None = None
        self._room = max_bytes
        self._stages: list[_Stage] = []
        for name in reversed((encoding or "").lower().split(",")):
            if (name := name.strip()) in ("", "identity"):
                continue
            try:
                self._stages.append(_STAGES[name]())
            except (KeyError, ImportError):
                self.problem = "unknown encoding"

    def feed(self, data: bytes) -> bytes:
        """The bytes that these encoded ones stand for, as far as they can be told."""
        if self.problem is not None:
            return b""
        if not self._stages and len(data) <= self._room:
            self._room -= len(data)
            return data
        out: list[bytes] = []
        try:
            for piece in self._through(data, self._stages):
                if len(piece) > self._room:
                    self.problem = "too long"
                    break
                self._room -= len(piece)
                out.append(piece)
        except Exception:
            # Each library has its own error for bad bytes, and all mean the same.
            self.problem = "damaged encoding"
        return b"".join(out)

    def _through(self, data: bytes, stages: list[_Stage]) -> Iterable[bytes]:
        if not stages:
            yield data
            return
        for piece in stages[0].feed(data):
            if piece:
                yield from self._through(piece, stages[1:])


def decode_body(
    data: bytes, encoding: str | None, max_bytes: int = MAX_BODY_BYTES
) -> tuple[bytes, Problem | None]:
    """A whole body at once: what could be decoded, and why not all of it."""
    decoder = BodyDecoder(encoding, max_bytes)
    return decoder.feed(data), decoder.problem
