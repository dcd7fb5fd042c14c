"""A provider on a free loopback port: it plays fixtures, or does what a test's function says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import orjson

from tests.raw_http import Headers, Message, read_body, read_head


class Exchange:
    """One request that came, and the connection to answer it on."""

    def __init__(
        self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.request = request
        self.reader = reader
        self.writer = writer

    async def read(self) -> Message:
        """The request with its whole body."""
        await read_body(self.reader, self.request, bodiless=True)
        return self.request

    async def head(self, status: int, headers: Headers) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        await self.writer.drain()

    async def stream(self, headers: Headers | None = None) -> None:
        """The head of an event stream."""
        kind = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
        await self.head(200, kind + (headers or []))

    async def chunk(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        await self.head(status, [*headers, ("content-length", str(len(body)))])
        self.writer.write(body)
        await self.writer.drain()

    def abort(self) -> None:
        """Break off, in the middle of whatever was being sent."""
        self.writer.transport.abort()


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]


class FakeUpstream:
    """`async with FakeUpstream(handler) as upstream`; the handler reads the request's body."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self._tls = tls
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requests: list[Message] = []

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"https://localhost:{port}" if self._tls else f"http://127.0.0.1:{port}"

    async def __aenter__(self) -> FakeUpstream:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        # Cancelled is how a test's end looks from here; asyncio's streams would complain of it.
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await read_head(reader)
                self.requests.append(request)
                await self.handler(Exchange(request, reader, writer))
        writer.close()
        self._tasks.discard(task)


class Fixture:
    """One captured exchange of tests/fixtures/capture."""

    def __init__(self, path: Path) -> None:
        document = orjson.loads(path.read_bytes())
        request, response = document["request"], document["response"]
        self.name = path.name
        self.method: str = request["method"]
        self.path: str = request["path"]
        self.headers: Headers = [(name, value) for name, value in request["headers"]]
        self.body = b"" if request["body"] is None else orjson.dumps(request["body"])
        self.status: int = response["status"]
        self.response_headers: Headers = list(response["headers"].items())
        self.streamed = "events" in response
        self.events: list[tuple[float, bytes]] = [
            (event["t_ms"], event["data"].encode()) for event in response.get("events", ())
        ]
        if response.get("body") is not None:
            self.events = [(0.0, orjson.dumps(response["body"]))]

    @property
    def response_body(self) -> bytes:
        return b"".join(data for _, data in self.events)

    @property
    def credentials(self) -> list[str]:
        values = (v for name, v in self.headers if name.lower() in ("authorization", "x-api-key"))
        return [value.removeprefix("Bearer ") for value in values]


def fixtures(folder: Path) -> list[Fixture]:
    """An agent's exchanges, in order of arrival."""
    return [Fixture(path) for path in sorted(folder.glob("[0-9][0-9].json"))]


def playing(cases: list[Fixture], time_scale: float) -> Handler:
    """Answer each request with the response of the fixture that it is, events at their times
    times `time_scale`."""

    async def play(exchange: Exchange) -> None:
        request = await exchange.read()
        case = next(
            c for c in cases if [c.method, c.path] == request.start[:2] and c.body == request.body
        )
        headers = case.response_headers
        if not case.streamed:
            await exchange.answer(case.status, headers, case.response_body)
            return
        await exchange.head(case.status, [*headers, ("transfer-encoding", "chunked")])
        sent_ms = 0.0
        for at_ms, data in case.events:
            await asyncio.sleep((at_ms - sent_ms) * time_scale / 1000)
            sent_ms = at_ms
            await exchange.chunk(data)
        await exchange.end()

    return play
