r"""What a frame says of an exchange: opened, answered, chunks, closed. Pure.

A part is one line of JSON, a newline, and raw bytes (a body). JSON because anybody can read it
(`zstd -d` and a pager are enough) and new keys do no harm to old readers; the bytes apart because
JSON holds no bytes, and base64 would make them a third longer and hide them from compression.
JSON written by orjson holds no raw newline, so the first one ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import orjson

from agentx.proxy_addons.wire.exchange import Chunk, Ended, Headers


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """The first part of every segment: whose it is, and its place among that writer's."""

    writer: str
    """Drawn at random by each process that writes."""
    sequence: int
    started_ms: float
    """Wall clock at the segment's creation, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A request, credentials already gone."""

    exchange: int
    """Counted by the writer as requests begin; unique together with its name."""
    upstream: str
    method: str
    path: str
    headers: Headers
    opened_ms: float
    """Wall clock, milliseconds since 1970."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """Status and headers of the response."""

    exchange: int
    status: int
    headers: Headers
    at_ms: float
    """From the exchange's opening, as every `at_ms` and `end_ms` here."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Some of the response's bytes, each piece with the time it came from the upstream."""

    exchange: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """How the exchange ended, and how many bytes went over the wire, kept or not."""

    exchange: int
    ended: Ended
    end_ms: float | None
    request_bytes: int
    response_bytes: int


Part: TypeAlias = SegmentStart | Opened | Answered | Chunks | Closed


class BadPart(ValueError):  # noqa: N818
    """The bytes are no part of this version."""


def encode(part: Part) -> bytes:
    """A part's bytes."""
    match part:
        case SegmentStart():
            return _line("segment", **_fields(part))
        case Opened(body=body):
            return _line("open", **_fields(part, "body")) + body
        case Answered():
            return _line("answer", **_fields(part))
        case Chunks(exchange=exchange, chunks=chunks):
            times = [chunk.at_ms for chunk in chunks]
            sizes = [len(chunk.data) for chunk in chunks]
            line = _line("chunks", exchange=exchange, at_ms=times, sizes=sizes)
            return line + b"".join(chunk.data for chunk in chunks)
        case Closed():
            return _line("close", **_fields(part))


def decode(data: bytes) -> Part:
    """The part that the bytes say. Raises BadPart."""
    line, newline, rest = data.partition(b"\n")
    if not newline:
        raise BadPart("no line of JSON")
    try:
        fields = orjson.loads(line)
        build = _BUILDERS[fields["kind"]]
        return build(fields, rest)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadPart(str(error)) from error


def _fields(part: Part, *without: str) -> dict[str, Any]:
    names = (name for name in part.__slots__ if name not in without)
    return {name: getattr(part, name) for name in names}


def _line(kind: str, **fields: Any) -> bytes:
    return orjson.dumps({"kind": kind, **fields}) + b"\n"


def _segment(fields: Mapping[str, Any], rest: bytes) -> SegmentStart:
    return SegmentStart(
        _text(fields["writer"]), _count(fields["sequence"]), _time(fields["started_ms"])
    )


def _open(fields: Mapping[str, Any], rest: bytes) -> Opened:
    return Opened(
        exchange=_count(fields["exchange"]),
        upstream=_text(fields["upstream"]),
        method=_text(fields["method"]),
        path=_text(fields["path"]),
        headers=_headers(fields["headers"]),
        opened_ms=_time(fields["opened_ms"]),
        body=rest,
    )


def _answer(fields: Mapping[str, Any], rest: bytes) -> Answered:
    return Answered(
        exchange=_count(fields["exchange"]),
        status=_count(fields["status"]),
        headers=_headers(fields["headers"]),
        at_ms=_time(fields["at_ms"]),
    )


def _chunks(fields: Mapping[str, Any], rest: bytes) -> Chunks:
    times = [_time(at_ms) for at_ms in fields["at_ms"]]
    sizes = [_count(size) for size in fields["sizes"]]
    if sum(sizes) != len(rest):
        raise BadPart("the sizes of the chunks do not fit their bytes")
    chunks = []
    start = 0
    for at_ms, size in zip(times, sizes, strict=True):
        chunks.append(Chunk(at_ms, rest[start : start + size]))
        start += size
    return Chunks(_count(fields["exchange"]), tuple(chunks))


def _close(fields: Mapping[str, Any], rest: bytes) -> Closed:
    ended = fields["ended"]
    if ended not in get_args(Ended):
        raise BadPart(f"an exchange cannot end as {ended!r}")
    end_ms = fields["end_ms"]
    return Closed(
        exchange=_count(fields["exchange"]),
        ended=ended,
        end_ms=None if end_ms is None else _time(end_ms),
        request_bytes=_count(fields["request_bytes"]),
        response_bytes=_count(fields["response_bytes"]),
    )


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], bytes], Part]] = {
    "segment": _segment,
    "open": _open,
    "answer": _answer,
    "chunks": _chunks,
    "close": _close,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadPart(f"{value!r} is no text")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise BadPart(f"{value!r} is no count")
    return value


def _time(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise BadPart(f"{value!r} is no time")
    return float(value)  # type: ignore[arg-type]


def _headers(value: object) -> Headers:
    if not isinstance(value, list):
        raise BadPart("headers are no list")
    return tuple((_text(name), _text(content)) for name, content in value)
