"""One request of a run as a row: what was meant, what happened, what the server said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from agentx.replay.exchange import ErrorClass, Exchange
from agentx.replay.measure import tpot_ms
from agentx.replay.plan import PlannedRequest

REQUESTS = pa.schema(
    [
        ("session_id", pa.string()),
        ("request", pa.int32()),
        ("lane", pa.int32()),
        ("pass", pa.int32()),
        ("agent_id", pa.string()),
        ("kind", pa.string()),
        ("model", pa.string()),
        ("intended_ms", pa.float64()),
        ("sent_ms", pa.float64()),
        ("connect_ms", pa.float64()),
        ("headers_ms", pa.float64()),
        ("first_byte_ms", pa.float64()),
        ("first_output_ms", pa.float64()),
        ("last_output_ms", pa.float64()),
        ("end_ms", pa.float64()),
        ("event_ms", pa.list_(pa.float64())),
        ("context_tokens", pa.int64()),
        ("messages", pa.int32()),
        ("kept_messages", pa.int32()),
        ("words", pa.int64()),
        ("body_bytes", pa.int64()),
        ("asked_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("events", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("theoretical_tokens", pa.int64()),
        ("theoretical_upper_tokens", pa.int64()),
        ("ttft_ms", pa.float64()),
        ("tpot_ms", pa.float64()),
        ("tpot_assumed", pa.bool_()),
        ("e2e_ms", pa.float64()),
        ("engine_ttft_ms", pa.float64()),
        ("engine_tpot_ms", pa.float64()),
        ("engine_e2e_ms", pa.float64()),
        ("status", pa.int32()),
        ("error", pa.string()),
        ("error_detail", pa.string()),
        ("finish_reason", pa.string()),
        ("reconnects", pa.int32()),
    ]
)
"""A run's requests.parquet, documented in docs/run.md. Times are wall milliseconds."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a driver knows of a request before its answer; times in seconds of its clock."""

    session_id: str
    planned: PlannedRequest
    lane: int
    intended: float
    messages: int
    kept_messages: int
    words: int
    body_bytes: int
    model: str | None = None
    """What the trace says, not what was asked for."""


def row_of(sent: Sent, exchange: Exchange, *, origin: float, exact_length: bool) -> dict[str, Any]:
    """The row of one request, all but the theoretical hits, which the whole run decides.

    `origin` is the run's start on the exchange's clock. `exact_length`: the server is known to
    generate as many tokens as asked, so that another number is a fault.
    """

    def ms(at: float | None) -> float | None:
        return None if at is None else round((at - origin) * 1e3, 3)

    meter = exchange.meter
    start = exchange.sent
    assert start is not None
    events = [round((at - start) * 1e3, 3) for at in meter.events]
    answered = exchange.error is None
    tpot, assumed = tpot_ms(events, meter.output_tokens, meter.first_event_tokens)
    error, detail = _verdict(sent, exchange, exact_length)
    end = exchange.end
    return {
        "session_id": sent.session_id,
        "request": sent.planned.index,
        "lane": sent.lane,
        "pass": 0,
        "agent_id": sent.planned.agent_id,
        "kind": sent.planned.kind,
        "model": sent.model,
        "intended_ms": ms(sent.intended),
        "sent_ms": ms(start),
        "connect_ms": round(exchange.connect_s * 1e3, 3),
        "headers_ms": ms(exchange.headers),
        "first_byte_ms": ms(meter.first_byte),
        "first_output_ms": ms(meter.events[0]) if meter.events else None,
        "last_output_ms": ms(meter.events[-1]) if meter.events else None,
        "end_ms": ms(end),
        "event_ms": events,
        "context_tokens": sent.planned.context_tokens,
        "messages": sent.messages,
        "kept_messages": sent.kept_messages,
        "words": sent.words,
        "body_bytes": sent.body_bytes,
        "asked_tokens": sent.planned.output_tokens,
        "output_tokens": meter.output_tokens,
        "events": len(events),
        "prompt_tokens": meter.prompt_tokens,
        "cached_tokens": meter.cached_tokens,
        "theoretical_tokens": None,
        "theoretical_upper_tokens": None,
        "ttft_ms": events[0] if events else None,
        "tpot_ms": tpot,
        "tpot_assumed": assumed,
        "e2e_ms": round((end - start) * 1e3, 3) if answered and end is not None else None,
        "engine_ttft_ms": _own_time(meter.engine, "ttft_ms"),
        "engine_tpot_ms": _own_time(meter.engine, "tpot_ms"),
        "engine_e2e_ms": _own_time(meter.engine, "e2e_ms"),
        "status": exchange.status,
        "error": error,
        "error_detail": detail,
        "finish_reason": meter.finish_reason,
        "reconnects": exchange.reconnects,
    }


def _verdict(
    sent: Sent, exchange: Exchange, exact_length: bool
) -> tuple[ErrorClass | None, str | None]:
    """How the request ended, its length included."""
    got, asked = exchange.meter.output_tokens, sent.planned.output_tokens
    if exchange.error is None and exact_length and got is not None and got != asked:
        return "wrong_length", f"{got} tokens where {asked} were asked for"
    return exchange.error, exchange.detail


def _own_time(engine: Mapping[str, Any], name: str) -> float | None:
    """One of the server's own times; None for whatever is no time."""
    value = engine.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
