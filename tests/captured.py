"""The capture fixtures as exchanges, made straight from their files, without proxy and spool."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
from hypothesis import settings

from agentx.proxy_addons.parts import Answered, Chunks, Closed, Opened, Part
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.wire.exchange import Chunk, Ended, Exchange

T0_MS = 1_780_000_000_000.0

unhurried = settings(deadline=None)
"""Other tests may keep the machine busy."""


def exchange(
    body: Any = None,
    *,
    path: str = "/v1/messages",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    at_ms: float = 0.0,
    status: int | None = 200,
    answer: bytes | list[tuple[float, bytes]] = b"",
    answer_headers: dict[str, str] | None = None,
    ended: Ended = "complete",
    end_ms: float | None = 100.0,
    exchange_id: str = "x",
) -> Exchange:
    """An exchange of a test's own making; `answer` in one chunk, or as (time, bytes)."""
    pieces = [(end_ms or 0.0, answer)] if isinstance(answer, bytes) else answer
    return Exchange(
        exchange_id=exchange_id,
        upstream="test",
        method=method,
        path=path,
        request_headers=tuple((headers or {}).items()),
        request_body=body if isinstance(body, bytes) else orjson.dumps(body),
        opened_ms=T0_MS + at_ms,
        status=status,
        response_headers=tuple((answer_headers or {"content-type": "application/json"}).items()),
        chunks=tuple(Chunk(at, data) for at, data in pieces if data),
        ended=ended,
        end_ms=end_ms,
    )


def fixture_exchanges(folder: Path) -> list[Exchange]:
    """A fixture folder's exchanges, in order of arrival."""
    return [_from_file(path) for path in sorted(folder.glob("[0-9][0-9].json"))]


def _from_file(path: Path) -> Exchange:
    document = orjson.loads(path.read_bytes())
    request, response = document["request"], document["response"]
    events = [(e["t_ms"], e["data"].encode()) for e in response.get("events", ())]
    if not events and response.get("body") is not None:
        events = [(50.0, orjson.dumps(response["body"]))]
    return exchange(
        b"" if request["body"] is None else orjson.dumps(request["body"]),
        path=request["path"],
        method=request["method"],
        headers={name.lower(): value for name, value in request["headers"]},
        at_ms=document["t_s"] * 1000,
        status=response["status"],
        answer=events,
        answer_headers={name.lower(): value for name, value in response["headers"].items()},
        end_ms=events[-1][0] if events else 1.0,
        exchange_id=path.stem,
    )


def write_spool(folder: Path, exchanges: Iterable[Exchange]) -> Path:
    """A spool that holds these exchanges, as the recorder writes it."""
    writer = SegmentWriter(folder, lambda: T0_MS)
    for number, found in enumerate(exchanges):
        parts: list[Part] = [
            Opened(
                number,
                found.upstream,
                found.method,
                found.path,
                found.request_headers,
                found.opened_ms,
                found.request_body,
            )
        ]
        if found.status is not None:
            parts.append(Answered(number, found.status, found.response_headers, 0.5))
        parts.append(Chunks(number, found.chunks))
        parts.append(Closed(number, found.ended, found.end_ms, 0, 0))
        for part in parts:
            assert writer.append(writer.encode(part)) is None
    writer.close()
    return folder
