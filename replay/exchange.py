"""One request on its way and what became of it, whatever carries it."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from agentx.replay.measure import StreamMeter

DETAIL = 200

ErrorClass: TypeAlias = Literal[
    "connect",
    "tls",
    "timeout",
    "http_429",
    "http_4xx",
    "http_5xx",
    "not_sse",
    "error_event",
    "broken",
    "empty",
    "wrong_length",
    "cancelled",
]
"""What went wrong with a request. Everything but None is a request that failed."""


class Exchange:
    """One request on its way; filled in as things happen, so that a fault keeps what came before.

    Times are seconds on `time.perf_counter`.
    """

    __slots__ = (
        "connect_s",
        "connecting",
        "detail",
        "end",
        "error",
        "headers",
        "meter",
        "reconnects",
        "reused",
        "sent",
        "status",
    )

    def __init__(self) -> None:
        self.sent: float | None = None
        """When its first byte went to the connection; until then, when it was begun."""
        self.connect_s = 0.0
        """Time that making a connection took; 0 where a kept one was used."""
        self.connecting: float | None = None
        """When the connection in the making was begun."""
        self.headers: float | None = None
        self.end: float | None = None
        self.status: int | None = None
        self.meter = StreamMeter()
        self.error: ErrorClass | None = None
        self.detail: str | None = None
        """What the fault was, short and in printable characters."""
        self.reconnects = 0
        """Times that a kept connection turned out to be closed, and another took the request."""
        self.reused = False
        """The connection had served an earlier request."""


class Transport(Protocol):
    """What a driver needs of a way to the server."""

    async def send(self, body: bytes, exchange: Exchange) -> None:
        """Send one chat completion and fill in the exchange; raises only when cancelled."""


def short(text: str, limit: int = DETAIL) -> str:
    """One line of printable characters, cut at the limit."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
