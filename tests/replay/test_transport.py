"""Every fault of a server becomes its class, with what was measured until then."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agentx.replay.exchange import Exchange, short
from agentx.replay.transport import HttpTransport
from tests.replay.fake_server import (
    DONE,
    END,
    HEAD,
    Call,
    Handler,
    chunk,
    event,
    serving,
    stop,
    text,
    usage,
)

BODY = b'{"messages":[]}'


async def exchanged(url: str, *, stall_s: float = 20, body: bytes = BODY) -> Exchange:
    async with HttpTransport(
        url + "/v1/chat/completions", stall_s=stall_s, api_key="k3y-secret"
    ) as transport:
        exchange = Exchange()
        await transport.send(body, exchange)
        return exchange


async def sent_to(handler: Handler, *, stall_s: float = 20, body: bytes = BODY) -> Exchange:
    async with serving(handler) as server:
        return await exchanged(server.url, stall_s=stall_s, body=body)


async def test_an_answer_is_measured_in_order() -> None:
    async def handler(call: Call) -> None:
        await call.write(HEAD, chunk(text("a")))
        await asyncio.sleep(0.02)
        await call.write(chunk(text("b")), chunk(stop() + usage(9, 2, 4) + DONE) + END)

    exchange = await sent_to(handler)
    assert exchange.error is None
    assert exchange.status == 200
    meter = exchange.meter
    stamps = [exchange.sent, exchange.headers, meter.first_byte, *meter.events, exchange.end]
    times = [stamp for stamp in stamps if stamp is not None]
    assert len(times) == 6
    assert times == sorted(times)
    assert (meter.prompt_tokens, meter.output_tokens, meter.cached_tokens) == (9, 2, 4)


async def test_the_request_is_plain_json_with_its_length_and_key() -> None:
    async with serving() as server:
        await exchanged(server.url, body=b'{"messages":[],"max_tokens":1}')
        [call] = server.calls
    assert call.method == "POST"
    assert call.path == "/v1/chat/completions"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["content-length"] == str(len(call.body))
    assert call.headers["accept-encoding"] == "identity"
    assert call.headers["authorization"] == "Bearer k3y-secret"


def answering(status: int, body: bytes, kind: str = "application/json", extra: str = "") -> Handler:
    async def handler(call: Call) -> None:
        await call.answer(status, body, kind, extra)

    return handler


HTML = b"<html><body>Sign in</body></html>"


@pytest.mark.parametrize(
    ("status", "body", "kind", "expected", "detail"),
    [
        (429, b'{"error":{"message":"slow down"}}', "application/json", "http_429", "slow down"),
        (400, b'{"error":{"message":"too long"}}', "application/json", "http_4xx", "too long"),
        (400, b'{"detail":"no such field"}', "application/json", "http_4xx", "no such field"),
        (413, b"", "text/plain", "http_4xx", "HTTP 413"),
        (500, b"oh no", "text/plain", "http_5xx", "oh no"),
        (503, HTML, "text/html", "http_5xx", "503"),
        (200, HTML, "text/html", "not_sse", "text/html"),
        (200, b'{"error":"no"}', "application/json", "not_sse", "no"),
        (200, b'{"choices":[{"message":{}}]}', "application/json", "not_sse", "whole JSON"),
        (204, b"", "text/plain", "empty", "without an event"),
    ],
)
async def test_an_answer_that_is_no_stream(
    status: int, body: bytes, kind: str, expected: str, detail: str
) -> None:
    exchange = await sent_to(answering(status, body, kind))
    assert exchange.error == expected
    assert exchange.detail is not None
    assert detail in exchange.detail
    assert exchange.status == status
    assert exchange.end is not None


async def test_a_redirect_is_not_followed() -> None:
    async with serving() as other:
        handler = answering(307, b"", extra=f"Location: {other.url}/v1/chat/completions\r\n")
        exchange = await sent_to(handler)
        assert other.calls == []
    assert exchange.error == "not_sse"
    assert exchange.detail is not None
    assert other.url in exchange.detail


async def test_a_stream_with_another_content_type_is_still_one() -> None:
    exchange = await sent_to(answering(200, text("a") + stop() + DONE, "text/plain"))
    assert exchange.error is None
    assert len(exchange.meter.events) == 1


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        exchange = await exchanged(f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert exchange.error == "connect"
    assert exchange.status is None


async def test_a_server_without_tls_is_told() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        exchange = await exchanged(f"https://127.0.0.1:{port}")
        assert exchange.error == "tls"
    finally:
        server.close()


async def broken_off(call: Call) -> None:
    await call.write(HEAD, chunk(text("a")), b"40\r\ndata: {")
    await asyncio.sleep(0.02)
    call.writer.close()


async def test_a_stream_that_breaks_off_keeps_what_came() -> None:
    exchange = await sent_to(broken_off)
    assert exchange.error == "broken"
    assert len(exchange.meter.events) == 1


async def test_a_stream_that_ends_without_its_end_is_broken() -> None:
    async def handler(call: Call) -> None:
        await call.stream(text("a"), text("b"))

    assert (await sent_to(handler)).error == "broken"


async def test_a_connection_closed_without_an_answer_is_broken() -> None:
    async def handler(call: Call) -> None:
        call.writer.close()

    async with serving(handler) as server:
        exchange = await exchanged(server.url)
        assert exchange.error == "broken"
        assert len(server.calls) == 1, "a fresh connection that fails is not tried again"


async def test_a_server_that_does_not_speak_http_is_broken() -> None:
    async def handler(call: Call) -> None:
        await call.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

    assert (await sent_to(handler)).error == "broken"


@pytest.mark.parametrize("after", [b"", HEAD, HEAD + chunk(text("a"))])
async def test_a_stall_is_a_timeout(after: bytes) -> None:
    async def handler(call: Call) -> None:
        await call.write(after)
        await asyncio.sleep(60)

    exchange = await sent_to(handler, stall_s=0.2)
    assert exchange.error == "timeout"
    assert len(exchange.meter.events) == after.count(b"data:")


async def test_comments_do_not_hide_a_stall() -> None:
    async def handler(call: Call) -> None:
        await call.write(HEAD)
        while True:
            await call.write(chunk(b": still here\n\n"))
            await asyncio.sleep(0.02)

    assert (await sent_to(handler, stall_s=0.2)).error == "timeout"


async def test_a_stream_may_take_longer_than_the_stall_limit() -> None:
    async def handler(call: Call) -> None:
        await call.write(HEAD)
        for _ in range(12):
            await call.write(chunk(text("a")))
            await asyncio.sleep(0.1)
        await call.write(chunk(stop() + DONE) + END)

    exchange = await sent_to(handler, stall_s=0.6)
    assert exchange.error is None
    assert len(exchange.meter.events) == 12


async def test_a_server_that_does_not_read_is_a_timeout() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(5)

    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        exchange = await exchanged(url, stall_s=0.3, body=b" " * (1 << 25))
        assert exchange.error == "timeout"
    finally:
        server.close()


async def test_an_error_event_with_status_200() -> None:
    async def handler(call: Call) -> None:
        await call.stream(text("a"), event({"error": {"message": "preempted"}}), DONE)

    exchange = await sent_to(handler)
    assert exchange.error == "error_event"
    assert exchange.status == 200
    assert exchange.detail == "preempted"


async def test_an_error_event_before_a_break_is_what_counts() -> None:
    async def handler(call: Call) -> None:
        await call.write(HEAD, chunk(event({"error": {"message": "dying"}})))
        await asyncio.sleep(0.02)
        call.writer.close()

    assert (await sent_to(handler)).error == "error_event"


@pytest.mark.parametrize("events", [[], [DONE], [stop(), DONE]])
async def test_a_stream_without_output_is_empty(events: list[bytes]) -> None:
    async def handler(call: Call) -> None:
        await call.stream(*events)

    assert (await sent_to(handler)).error == "empty"


async def test_tokens_without_text_are_an_answer() -> None:
    """A token may decode to nothing; its time is then unknown, but the request was answered."""

    async def handler(call: Call) -> None:
        await call.stream(stop(), usage(5, 1), DONE)

    exchange = await sent_to(handler)
    assert exchange.error is None
    assert exchange.meter.events == []


async def test_an_event_that_is_no_json_is_broken() -> None:
    async def handler(call: Call) -> None:
        await call.stream(text("a"), b"data: {oops\n\n")

    assert (await sent_to(handler)).error == "broken"


async def test_a_kept_connection_closed_by_the_server_is_replaced() -> None:
    """Servers close idle connections; a request that meets the close was never read."""
    seen: list[int] = []

    async def handler(call: Call) -> None:
        seen.append(id(call.writer))
        if len(seen) == 2:  # the second request on the first connection: closed instead of read
            call.writer.close()
            return
        await call.stream(text("a"), stop(), DONE)

    async with (
        serving(handler) as server,
        HttpTransport(server.url + "/v1/chat/completions", stall_s=20) as transport,
    ):
        for reconnects in (0, 1):
            exchange = Exchange()
            await transport.send(BODY, exchange)
            assert exchange.error is None
            assert exchange.reconnects == reconnects
            assert exchange.connect_s > 0
    assert seen[0] == seen[1] != seen[2]


async def test_the_key_is_in_no_detail() -> None:
    handler = answering(401, b'{"error":{"message":"Incorrect API key k3y-secret given"}}')
    exchange = await sent_to(handler)
    assert exchange.detail is not None
    assert "k3y-secret" not in exchange.detail


async def test_cancelling_keeps_what_was_measured() -> None:
    written = asyncio.Event()

    async def handler(call: Call) -> None:
        await call.write(HEAD, chunk(text("a")))
        written.set()
        await asyncio.sleep(60)

    async with (
        serving(handler) as server,
        HttpTransport(server.url + "/v1/chat/completions", stall_s=20) as transport,
    ):
        exchange = Exchange()
        sending = asyncio.create_task(transport.send(BODY, exchange))
        await written.wait()
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert len(exchange.meter.events) == 1
    assert exchange.end is not None


async def test_a_page_is_bounded() -> None:
    async with (
        serving(answering(200, b"x" * 10_000, "text/plain")) as server,
        HttpTransport(server.url, stall_s=20) as transport,
    ):
        page = await transport.get(server.url + "/metrics", timeout_s=5, limit=100)
    assert page.body == b"x" * 100


def test_details_are_short_and_printable() -> None:
    assert short("a\x1b[31m\n\tb\x00c") == "a [31m b c"
    assert len(short("x" * 10_000)) == 200
