"""One exchange while it goes on: what the proxy sees of it becomes items for the recorder.

Knows neither mitmproxy nor a clock. Nothing here waits, and nothing here is needed for the traffic
to go on.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.frames import MAX_BODY
from agentx.proxy_addons.parts import Answered, Closed, Opened
from agentx.proxy_addons.providers import REQUEST_HEADERS, RESPONSE_HEADERS, dialect_of
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.redact import clean_path, kept_headers, secrets_of
from agentx.proxy_addons.wire.exchange import Ended, Headers
from agentx.proxy_addons.writer import Closing, Item, Opening, Piece


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head as it came, credentials and all; never queued, never written."""

    upstream: str
    method: str
    path: str
    headers: Headers
    opened_ms: float


class LiveExchange:
    """Times (`at_ms`) are from the exchange's opening."""

    def __init__(self, number: int, head: Head, recorder: Recorder, counters: Counters) -> None:
        self._recorder = recorder
        self._counters = counters
        self._secrets = secrets_of(head.headers, head.path)
        self._keeps_bodies = dialect_of(head.method, head.path) is not None
        self._opened = Opened(
            exchange=number,
            upstream=head.upstream,
            method=head.method,
            path=clean_path(head.path, self._secrets),
            headers=kept_headers(head.headers, REQUEST_HEADERS, self._secrets),
            opened_ms=head.opened_ms,
            body=b"",
        )
        self._body: list[bytes] = []
        self._reserved = 0
        self._request_bytes = 0
        self._response_bytes = 0
        self._put_open = False
        self._early: list[tuple[Item, int]] = []
        """What the upstream sent before the whole request was there; it is written after it."""
        self._lost: str | None = None
        self._trouble: str | None = None
        self._ended = False
        counters.began()

    def request_data(self, data: bytes) -> None:
        """Bytes of the request's body went by."""
        if self._ended:
            return
        self._counters.sent(len(data))
        self._request_bytes += len(data)
        if self._lost is not None or not self._keeps_bodies or self._put_open:
            return
        if self._request_bytes > MAX_BODY:
            self._lose("too_large")
        elif not self._recorder.reserve(len(data)):
            self._lose("queue_full")
        else:
            self._reserved += len(data)
            self._body.append(data)

    def request_done(self) -> None:
        """The request is whole."""
        if self._put_open or self._lost is not None:
            return
        self._put_open = True
        opening = Opening(self._opened, tuple(self._body), self._secrets)
        self._recorder.put(opening, self._reserved)
        self._body = []
        self._reserved = 0
        early, self._early = self._early, []
        for item, reserved in early:
            self._recorder.put(item, reserved)

    def answered(self, status: int, headers: Headers, at_ms: float) -> None:
        """Status and headers of the response came."""
        kept = kept_headers(headers, RESPONSE_HEADERS, self._secrets)
        self._put(Answered(self._opened.exchange, status, kept, at_ms), 0)

    def response_data(self, data: bytes, at_ms: float) -> None:
        """Bytes of the response's body came from the upstream."""
        self._counters.received(len(data))
        self._response_bytes += len(data)
        if self._trouble is not None or self._lost is not None or not self._keeps_bodies:
            return
        if self._response_bytes > MAX_BODY:
            self._trouble = "too_large"
        elif not self._recorder.reserve(len(data)):
            self._trouble = "queue_full"
        else:
            self._put(Piece(self._opened.exchange, at_ms, data), len(data))

    def end(self, ended: Ended, at_ms: float | None) -> None:
        """The exchange is over; what comes after this is not looked at."""
        if self._ended:
            return
        self._ended = True
        self.request_done()
        closed = Closed(
            self._opened.exchange, ended, at_ms, self._request_bytes, self._response_bytes
        )
        self._put(Closing(closed, self._trouble), 0)

    def _put(self, item: Item, reserved: int) -> None:
        if self._lost is not None:
            return
        if self._put_open:
            self._recorder.put(item, reserved)
        else:
            self._early.append((item, reserved))

    def _lose(self, reason: str) -> None:
        self._lost = reason
        self._counters.lost(reason)
        self._recorder.release(self._reserved + sum(reserved for _, reserved in self._early))
        self._body = []
        self._early = []
        self._reserved = 0
