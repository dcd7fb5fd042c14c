"""A server on a free loopback port whose every byte a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass
class Call:
    """One request as it came, and the connection to answer on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def document(self) -> Any:
        return orjson.loads(self.body)

    async def write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(
        self, status: int, body: bytes, content_type: str = "application/json", extra: str = ""
    ) -> None:
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\n{extra}\r\n"
        )
        await self.write(head.encode() + body)

    async def json(self, status: int, document: Any) -> None:
        await self.answer(status, orjson.dumps(document))

    async def stream(self, *events: bytes) -> None:
        """A whole streamed answer."""
        await self.write(HEAD + b"".join(chunk(event) for event in events) + END)


Handler = Callable[[Call], Awaitable[None]]


@dataclass
class FakeServer:
    url: str
    server: asyncio.Server
    handler: Handler
    calls: list[Call] = field(default_factory=list)

    def to(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.path == path]

    def die(self) -> None:
        """Stop listening and break every connection."""
        self.server.close()
        for call in self.calls:
            call.writer.transport.abort()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: Any) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"


def text(word: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})


def stop(reason: str = "length") -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


def usage(prompt: int, output: int, cached: int | None = None) -> bytes:
    details = None if cached is None else {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": output}
    return event({"choices": [], "usage": {**counts, "prompt_tokens_details": details}})


DONE = b"data: [DONE]\n\n"


def words_in(document: Any) -> int:
    """A prompt's tokens as a server counts them that takes a word for a token."""
    return sum(len(message["content"].split()) for message in document["messages"])


async def ordinary(call: Call) -> None:
    """What a well-behaved server answers; handlers of faults fall back on it."""
    if call.path.endswith("/models"):
        await call.json(200, {"object": "list", "data": [{"id": "small", "object": "model"}]})
    elif call.path.endswith("/chat/completions"):
        asked = call.document.get("max_tokens", 4)
        prompt = words_in(call.document)
        await call.stream(
            *(text(f"w{i} ") for i in range(asked)), stop(), usage(prompt, asked, 0), DONE
        )
    else:
        await call.json(404, {"error": {"message": "no such page"}})


@asynccontextmanager
async def serving(handler: Handler = ordinary) -> AsyncIterator[FakeServer]:
    """Serve until the block ends; connections that are open then are broken off."""
    tasks: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while not writer.is_closing():
                    call = await _read(reader, writer)
                    fake.calls.append(call)
                    await fake.handler(call)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, limit=1 << 26)
    port = server.sockets[0].getsockname()[1]
    fake = FakeServer(f"http://127.0.0.1:{port}", server, handler)
    try:
        yield fake
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(method, path, headers, body, writer)
