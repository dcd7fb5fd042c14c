"""HTTP/1.1 by hand, on both sides, so that a test decides and sees every byte."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

Headers = list[tuple[str, str]]


@dataclass
class Message:
    """A request or a response as it was on the wire."""

    head: bytes
    """The start line and the headers, without the empty line."""
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)
    """The body as it came: one a chunk, or one a read."""

    @property
    def start(self) -> list[str]:
        return self.head.split(b"\r\n")[0].decode("latin-1").split(" ", 2)

    @property
    def headers(self) -> Headers:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return [(name, value.strip()) for name, _, value in pairs]

    def header(self, name: str) -> str | None:
        values = (value for key, value in self.headers if key.lower() == name)
        return next(values, None)

    @property
    def status(self) -> int:
        return int(self.start[1])


async def read_head(reader: asyncio.StreamReader) -> Message:
    """Raises asyncio.IncompleteReadError where the other side is gone."""
    head = await reader.readuntil(b"\r\n\r\n")
    return Message(head.removesuffix(b"\r\n\r\n"))


async def read_piece(reader: asyncio.StreamReader, message: Message) -> bytes:
    """The next chunk of a chunked body, empty at its end; kept in the message too."""
    size = int((await reader.readline()).strip() or b"0", 16)
    data = (await reader.readexactly(size + 2))[:-2]
    if data:
        message.pieces.append(data)
        message.body += data
    return data


async def read_body(reader: asyncio.StreamReader, message: Message, *, bodiless: bool) -> None:
    """The whole body, however it is framed; `bodiless` where no framing means no body."""
    if (message.header("transfer-encoding") or "").lower() == "chunked":
        while await read_piece(reader, message):
            pass
        return
    length = message.header("content-length")
    if length is not None:
        message.body = await reader.readexactly(int(length))
    elif not bodiless:
        message.body = await reader.read()
    message.pieces = [message.body] if message.body else []


class Client:
    """One connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(
        self, method: str, path: str, headers: Headers | None = None, body: bytes = b""
    ) -> None:
        """A request; its content-length is set where there is a body and no framing yet."""
        headers = [("Host", "proxy.test"), *(headers or [])]
        names = {name.lower() for name, _ in headers}
        if body and not names & {"content-length", "transfer-encoding"}:
            headers.append(("Content-Length", str(len(body))))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        await self.writer.drain()

    async def receive(self, *, bodiless: bool = False) -> Message:
        message = await read_head(self.reader)
        bodiless = bodiless or message.status in (204, 304)
        if not bodiless:
            await read_body(self.reader, message, bodiless=False)
        return message

    async def ask(
        self, method: str, path: str, headers: Headers | None = None, body: bytes = b""
    ) -> Message:
        await self.send(method, path, headers, body)
        return await self.receive(bodiless=method == "HEAD")

    async def close(self) -> None:
        self.writer.close()


async def ask(
    port: int, method: str, path: str, headers: Headers | None = None, body: bytes = b""
) -> Message:
    """One request on a connection of its own."""
    client = await Client.connect(port)
    try:
        return await client.ask(method, path, headers, body)
    finally:
        await client.close()
