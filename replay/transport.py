"""Sends requests over HTTP with aiohttp and stamps what comes back.

A transport never raises for what a server does: each fault becomes one of the error classes of the
run format, and what was measured until then is kept.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from time import perf_counter
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp
import orjson

from agentx.replay.exchange import ErrorClass, Exchange, short
from agentx.replay.measure import StreamError, error_message

CONNECT_S = 10.0
"""How long a connection may take to be made."""

IDLE_S = 4.0
"""An idle connection is closed after this: many servers close theirs after 5 s, and a request that
meets such a close is lost."""

STALE_S = 1.0
"""A kept connection that fails this soon after a send had been closed by the server before it."""

READ_BUFFER = 1 << 20
ERROR_BODY = 64 * 1024

_STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError)
_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":", b"\xef\xbb\xbf")


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a GET."""

    status: int
    content_type: str
    body: bytes
    """At most the limit that was asked for."""

    def document(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return orjson.loads(self.body)
        except ValueError:
            return None


class HttpTransport:
    """One pool of kept connections to one server."""

    def __init__(self, chat_url: str, *, stall_s: float, api_key: str | None = None) -> None:
        self.chat_url = chat_url
        self._stall_s = stall_s
        self._api_key = api_key
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Bodies are JSON, and answers as they are: a compressed stream hides when a byte was sent.
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        trace.on_connection_create_start.append(_note_connecting)
        trace.on_connection_create_end.append(_note_connected)
        trace.on_request_chunk_sent.append(_note_write)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, connect=CONNECT_S),
            read_bufsize=READ_BUFFER,
            headers=headers,
            trace_configs=[trace],
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, url: str, *, timeout_s: float, limit: int = 1 << 20) -> Page:
        """Fetch a page, without following redirects.

        Raises:
            aiohttp.ClientError, TimeoutError, OSError: no answer came.
        """
        assert self._session is not None
        async with (
            asyncio.timeout(timeout_s),
            self._session.get(
                url, allow_redirects=False, headers={"Accept": "*/*"}, trace_request_ctx=Exchange()
            ) as response,
        ):
            body = await _read(response, limit)
            return Page(response.status, response.content_type, body)

    async def send(self, body: bytes, exchange: Exchange) -> None:
        """Send one chat completion and fill in the exchange; raises only when cancelled."""
        exchange.sent = perf_counter()
        try:
            async with asyncio.timeout(self._stall_s) as deadline:
                await self._send_on_open_connection(body, exchange, deadline)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                self._failed(exchange, "connect", f"no connection within {CONNECT_S:g} s")
            else:
                self._failed(exchange, "timeout", f"no event for {self._stall_s:g} s")
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            self._failed(exchange, "tls", str(error))
        except aiohttp.ClientConnectorError as error:
            self._failed(exchange, "connect", reason(error))
        except (aiohttp.ClientError, StreamError, OSError, ValueError) as error:
            self._failed(exchange, "broken", str(error) or type(error).__name__)
        finally:
            exchange.end = perf_counter()
        if exchange.meter.error is not None:
            exchange.error = None
            self._failed(exchange, "error_event", exchange.meter.error)

    async def _send_on_open_connection(
        self, body: bytes, exchange: Exchange, deadline: asyncio.Timeout
    ) -> None:
        """Send once, and again only where the connection had been closed before we used it."""
        while True:
            exchange.reused = False
            try:
                await self._attempt(body, exchange, deadline)
            except _STALE:
                assert exchange.sent is not None
                unheard = exchange.headers is None and perf_counter() - exchange.sent < STALE_S
                if not (exchange.reused and unheard):
                    raise
                exchange.reconnects += 1
            else:
                return

    async def _attempt(self, body: bytes, exchange: Exchange, deadline: asyncio.Timeout) -> None:
        assert self._session is not None
        async with self._session.post(
            self.chat_url,
            data=body,
            headers={"Content-Type": "application/json"},
            allow_redirects=False,
            trace_request_ctx=exchange,
        ) as response:
            exchange.headers = perf_counter()
            exchange.status = response.status
            if 200 <= response.status < 300:
                await self._stream(response, exchange, deadline)
            else:
                await self._refused(response, exchange)

    async def _stream(
        self, response: aiohttp.ClientResponse, exchange: Exchange, deadline: asyncio.Timeout
    ) -> None:
        meter = exchange.meter
        loop = asyncio.get_running_loop()
        armed = progressed = exchange.sent
        assert armed is not None
        assert progressed is not None
        read = response.content.readany
        sure = response.content_type == "text/event-stream"
        while data := await read():
            now = perf_counter()
            if not sure:
                if not data.startswith(_EVENT_STARTS) and not data.isspace():
                    rest = await _read(response, ERROR_BODY)
                    self._failed(exchange, "not_sse", _described(response, data + rest))
                    return
                sure = True
            meter.feed(now, data)
            if meter.progressed is not None:
                progressed = meter.progressed
            # Moving the deadline costs more than an event does: a hundredth late is soon enough.
            if progressed - armed > self._stall_s / 100:
                armed = progressed
                deadline.reschedule(loop.time() + self._stall_s)
        meter.close()
        if meter.finished:
            if not meter.events and not meter.output_tokens:
                self._failed(exchange, "empty", "the answer holds no output")
        elif meter.first_byte is None or (not meter.events and meter.progressed is None):
            self._failed(exchange, "empty", "the stream ended without an event")
        else:
            self._failed(exchange, "broken", "the stream ended without finish_reason or [DONE]")

    async def _refused(self, response: aiohttp.ClientResponse, exchange: Exchange) -> None:
        status = response.status
        if status == 429:
            kind: ErrorClass = "http_429"
        elif 400 <= status < 500:
            kind = "http_4xx"
        elif status >= 500:
            kind = "http_5xx"
        else:
            kind = "not_sse"
        if location := response.headers.get("Location"):
            self._failed(exchange, kind, f"HTTP {status} redirects to {location}")
            return
        # Noted before the body is read: a server that breaks off here has still said its status.
        self._failed(exchange, kind, f"HTTP {status}")
        body = await _read(response, ERROR_BODY)
        exchange.error = None
        self._failed(exchange, kind, _described(response, body))

    def _failed(self, exchange: Exchange, kind: ErrorClass, detail: str) -> None:
        """The first fault of a request is its class; what follows from it is not."""
        if exchange.error is not None:
            return
        if self._api_key:
            detail = detail.replace(self._api_key, "***")
        exchange.error = kind
        exchange.detail = short(detail)


def reason(error: Exception) -> str:
    """Why a connection failed, in the system's words where it has some."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.errno is not None:
        # A name that cannot be resolved has an errno of its own, below 0.
        return os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or str(cause)
    return short(str(cause)) or type(cause).__name__


def _described(response: aiohttp.ClientResponse, body: bytes) -> str:
    """What a server said instead of a stream."""
    said = f"HTTP {response.status}"
    try:
        document = orjson.loads(body)
    except ValueError:
        text = body[:ERROR_BODY].decode("utf-8", "replace").strip()
        return f"{said}, {response.content_type}: {text}" if text else said
    if isinstance(document, dict) and not document.get("choices"):
        return f"{said}: {error_message(document)}"
    return f"{said}: a whole JSON answer where a stream was asked for"


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """At most `limit` bytes of what is left of a body."""
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := await response.content.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


async def _note_reuse(session: object, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.reused = True


async def _note_connecting(session: object, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.connecting = perf_counter()


async def _note_connected(session: object, context: SimpleNamespace, params: object) -> None:
    exchange: Exchange = context.trace_request_ctx
    assert exchange.connecting is not None
    exchange.connect_s += perf_counter() - exchange.connecting


async def _note_write(session: object, context: SimpleNamespace, params: object) -> None:
    """Called just before the body, and the head with it, goes to the connection."""
    context.trace_request_ctx.sent = perf_counter()
