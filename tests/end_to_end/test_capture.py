"""A real `agentx capture` between a client and a fake provider, byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import signal
import socket
import ssl
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest
import pytest_asyncio
import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy import certs

from agentx.proxy_addons.frames import FrameReader, read_header
from agentx.proxy_addons.spool import SUFFIX, SpoolReader
from agentx.proxy_addons.wire.exchange import Exchange as Recorded
from tests.capture_process import CaptureProcess
from tests.fake_upstream import Exchange, FakeUpstream, Handler, fixtures, playing
from tests.raw_http import Client, Headers, ask

MESSAGES = "/v1/messages"
KEY = "sk-ant-api03-a-key-of-a-test-0123456789"
HEADERS: Headers = [("x-api-key", KEY), ("Content-Type", "application/json")]
BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": f"my key is {KEY}"}]})


def recorded(spool: Path) -> list[Recorded]:
    return list(SpoolReader(spool).exchanges())


def response_of(exchange: Recorded) -> bytes:
    return b"".join(chunk.data for chunk in exchange.chunks)


def everything_in(spool: Path) -> bytes:
    """Every byte of the spool, raw, and every frame of it, unpacked."""
    found = []
    for path in sorted(spool.iterdir()):
        found.append(path.name.encode() + path.read_bytes())
        if path.suffix == SUFFIX:
            with path.open("rb") as file:
                assert read_header(file)
                frames = FrameReader()
                while (part := frames.read(file)) is not None:
                    found.append(part)
    return b"\n".join(found)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.02)


class Shared:
    """One proxy for all tests that leave it as it was, each with its own behaviour upstream."""

    def __init__(self, upstream: FakeUpstream, proxy: CaptureProcess) -> None:
        self.upstream = upstream
        self.port = proxy.port
        self.spool = proxy.spool
        self._seen = 0

    def behave(self, handler: Handler) -> None:
        self.upstream.handler = handler
        self.upstream.requests.clear()

    async def recorded(self, count: int) -> list[Recorded]:
        """The exchanges since the last time; waits until so many are written to their end."""
        await until(lambda: self._ended() >= self._seen + count)
        exchanges = recorded(self.spool)[self._seen :]
        self._seen += count
        return exchanges

    def _ended(self) -> int:
        return sum(exchange.end_ms is not None for exchange in recorded(self.spool))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Shared]:
    async def nothing(exchange: Exchange) -> None:
        exchange.abort()

    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        async with FakeUpstream(nothing) as upstream, CaptureProcess(upstream.url, spool) as proxy:
            yield Shared(upstream, proxy)
            counts = await proxy.stop()
        exchanges = recorded(spool)
        complete = sum(exchange.ended == "complete" for exchange in exchanges)
        assert counts["complete"] == complete
        assert sum(counts["partial"].values()) == len(exchanges) - complete
        assert counts["requests"] == len(exchanges)
        assert counts["lost"] == {}
        assert counts["faults"] == 0
        assert stat.S_IMODE(spool.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in spool.iterdir()} == {0o600}


in_module_loop = pytest.mark.asyncio(loop_scope="module")


@in_module_loop
@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
async def test_a_whole_run_of_an_agent_passes_unchanged_and_is_kept(
    agent: str, fixtures_dir: Path, shared: Shared
) -> None:
    cases = fixtures(fixtures_dir / "capture" / agent)
    shared.behave(playing(cases, time_scale=0.1))
    client = await Client.connect(shared.port)
    for case in cases:
        headers = [pair for pair in case.headers if pair[0] != "Host"]
        answer = await client.ask(case.method, case.path, headers, case.body)
        sent = shared.upstream.requests[-1]

        assert answer.status == case.status
        assert answer.body == case.response_body
        assert answer.pieces == [data for _, data in case.events if data]
        answered = [pair for pair in answer.headers if pair[0] in dict(case.response_headers)]
        assert answered == case.response_headers
        assert sent.body == case.body
        assert [pair for pair in sent.headers if pair[0] != "Host"] == headers
        assert sent.header("host") == shared.upstream.url.removeprefix("http://")
    await client.close()

    exchanges = await shared.recorded(len(cases))
    for case, exchange in zip(cases, exchanges, strict=True):
        assert (exchange.method, exchange.path) == (case.method, case.path)
        assert exchange.upstream == "fake"
        assert exchange.status == case.status
        assert exchange.ended == "complete"
        assert [chunk.data for chunk in exchange.chunks] == [data for _, data in case.events]
        times = [chunk.at_ms for chunk in exchange.chunks]
        assert times == sorted(times)
        assert exchange.end_ms is not None
        assert exchange.end_ms >= (times[-1] if times else 0)
        ids = [n for n, _ in case.headers if "session" in n.lower() or "agent-id" in n.lower()]
        assert {name.lower() for name in ids} <= dict(exchange.request_headers).keys()
        assert content_of(exchange.request_body) == content_of(case.body)

    held = everything_in(shared.spool)
    credentials = [value for case in cases for value in case.credentials]
    assert credentials
    for credential in credentials:
        assert credential.encode() not in held
    assert b"0" * 63 + b"1" not in held, "a device's id"


def content_of(body: bytes) -> object:
    """A body without what names a device or an account; a session's id stays."""
    document = orjson.loads(body) if body else None
    if isinstance(document, dict) and "metadata" in document:
        user = orjson.loads(document["metadata"]["user_id"])
        document["metadata"] = user["session_id"]
    return document


@in_module_loop
async def test_neither_side_waits_for_the_proxy(shared: Shared) -> None:
    half_came = asyncio.Event()
    chunk_came = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        assert await exchange.reader.readexactly(len(BODY) // 2) == BODY[: len(BODY) // 2]
        half_came.set()
        await exchange.reader.readexactly(len(BODY) - len(BODY) // 2)
        await exchange.stream()
        await exchange.chunk(b"data: 1\n\n")
        await chunk_came.wait()
        await exchange.chunk(b"data: 2\n\n")
        await exchange.end()

    shared.behave(handle)
    client = await Client.connect(shared.port)
    length = ("Content-Length", str(len(BODY)))
    await client.send("POST", MESSAGES, [*HEADERS, length], BODY[: len(BODY) // 2])
    await half_came.wait()
    client.writer.write(BODY[len(BODY) // 2 :])
    # The fake provider ends only when its first chunk was seen here.
    assert b"200" in await client.reader.readuntil(b"\r\n\r\n")
    assert await client.reader.readuntil(b"\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
    chunk_came.set()
    assert await client.reader.readuntil(b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    await client.close()
    (exchange,) = await shared.recorded(1)
    assert exchange.ended == "complete"
    assert response_of(exchange) == b"data: 1\n\ndata: 2\n\n"


@in_module_loop
async def test_answers_of_every_kind_pass_byte_for_byte(shared: Shared) -> None:
    packed = gzip.compress(b'{"content": [], "key": "' + KEY.encode() + b'"}')
    packed_body = zstandard.compress(BODY)
    answers: dict[str, tuple[int, Headers, bytes]] = {
        "/plain" + MESSAGES: (200, [("content-type", "application/json")], b'{"content": []}'),
        "/gzip" + MESSAGES: (200, [("content-encoding", "gzip")], packed),
        "/wrong" + MESSAGES: (200, [("content-encoding", "gzip")], b"no gzip at all"),
        "/limit" + MESSAGES: (429, [("retry-after", "7"), ("set-cookie", KEY)], b"{}"),
        "/broken/chat/completions": (500, [], b"<html>" + KEY.encode()),
        "/v1/oauth/token": (200, [], b'{"access_token": "another-credential"}'),
    }

    async def handle(exchange: Exchange) -> None:
        request = await exchange.read()
        path = request.start[1]
        if path == "/none":
            await exchange.head(204, [])
        elif path == "/until-the-end/chat/completions":
            await exchange.head(200, [])
            exchange.writer.write(b"data: no length, no chunks\n\n")
            exchange.writer.close()
        elif request.start[0] == "HEAD":
            await exchange.head(200, [("content-length", "12345")])
        else:
            await exchange.answer(*answers[path])

    shared.behave(handle)
    client = await Client.connect(shared.port)
    for path, (status, headers, body) in answers.items():
        answer = await client.ask("POST", path, HEADERS, BODY)
        assert (answer.status, answer.body) == (status, body)
        assert answer.headers[: len(headers)] == headers
    head = await client.ask("HEAD", "/")
    assert (head.status, head.header("content-length")) == (200, "12345")
    assert (await client.ask("GET", "/none")).status == 204
    await client.ask(
        "POST", "/plain" + MESSAGES, [*HEADERS, ("Content-Encoding", "zstd")], packed_body
    )
    assert shared.upstream.requests[-1].body == packed_body
    assert shared.upstream.requests[-1].header("content-encoding") == "zstd"
    answer = await client.ask("POST", "/until-the-end/chat/completions", HEADERS, BODY)
    assert answer.body == b"data: no length, no chunks\n\n"
    await client.close()

    exchanges = await shared.recorded(len(answers) + 4)
    asked = [*answers, "/", "/none", "packed", "/until-the-end/chat/completions"]
    by_path = dict(zip(asked, exchanges, strict=True))
    assert by_path["/wrong" + MESSAGES].ended == "proxy_stopped", "its recording did"
    assert {e.ended for path, e in by_path.items() if "wrong" not in path} == {"complete"}
    limit = by_path["/limit" + MESSAGES]
    assert (limit.status, response_of(limit)) == (429, b"{}")
    assert ("retry-after", "7") in limit.response_headers
    gzipped = by_path["/gzip" + MESSAGES]
    assert response_of(gzipped) == gzip.decompress(packed).replace(KEY.encode(), b"*" * len(KEY))
    assert "content-encoding" not in dict(gzipped.response_headers)
    # What is no call of a model is kept without its bodies.
    login = by_path["/v1/oauth/token"]
    assert (login.status, login.request_body, login.chunks) == (200, b"", ())
    assert by_path["packed"].request_body == BODY.replace(KEY.encode(), b"*" * len(KEY))
    held = everything_in(shared.spool)
    assert KEY.encode() not in held
    assert b"another-credential" not in held


@in_module_loop
async def test_credentials_in_a_path_or_a_query_never_reach_the_disk(shared: Shared) -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.answer(200, [], b"{}")

    shared.behave(handle)
    path = f"/gw/{KEY}{MESSAGES}?beta=true&key={KEY}&access_token=tok-{KEY}"
    cookie = ("Cookie", "a=a-cookie-value")
    assert (await ask(shared.port, "POST", path, [cookie], BODY)).status == 200
    assert shared.upstream.requests[0].start[1] == path
    (exchange,) = await shared.recorded(1)
    assert exchange.path == f"/gw/redacted{MESSAGES}?beta=true&key=redacted&access_token=redacted"
    held = everything_in(shared.spool)
    assert KEY.encode() not in held
    assert b"a-cookie-value" not in held


@in_module_loop
async def test_large_and_early(shared: Shared) -> None:
    """A body of 50 MB, an upstream that asks for it first, and one that refuses it unread."""
    large = orjson.dumps({"messages": [{"role": "user", "content": "x" * 50_000_000}]})

    async def handle(exchange: Exchange) -> None:
        if exchange.request.start[1].startswith("/refuse"):
            await exchange.answer(413, [], b"too large")
            exchange.writer.close()
            return
        request = await exchange.read()
        await exchange.answer(200, [], str(len(request.body)).encode())

    shared.behave(handle)
    client = await Client.connect(shared.port)
    length = ("Content-Length", str(len(large)))
    await client.send("POST", MESSAGES, [*HEADERS, length, ("Expect", "100-continue")])
    assert (await client.receive(bodiless=True)).status == 100
    client.writer.write(large)
    assert (await client.receive()).body == str(len(large)).encode()
    await client.close()

    client = await Client.connect(shared.port)
    await client.send("POST", "/refuse" + MESSAGES, [*HEADERS, length], large[:1000])
    refusal = await client.receive()
    assert (refusal.status, refusal.body) == (413, b"too large")
    await client.close()

    first, second = await shared.recorded(2)
    assert first.request_body == large
    assert (second.status, response_of(second)) == (413, b"too large")


@in_module_loop
async def test_a_client_that_leaves_and_an_upstream_that_breaks_off(shared: Shared) -> None:
    client_left = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: begun\n\n")
        if exchange.request.start[1].startswith("/break"):
            exchange.abort()
            return
        assert await exchange.reader.read() == b""
        client_left.set()
        exchange.writer.close()

    shared.behave(handle)
    leaving = await Client.connect(shared.port)
    await leaving.send("POST", MESSAGES, HEADERS, BODY)
    await leaving.reader.readuntil(b"begun\n\n\r\n")
    await leaving.close()
    await client_left.wait()  # the provider learns of it, and stops to generate

    staying = await Client.connect(shared.port)
    await staying.send("POST", "/break" + MESSAGES, HEADERS, BODY)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await staying.receive()
    await staying.close()

    half = await Client.connect(shared.port)
    await half.send("POST", MESSAGES, [*HEADERS, ("Content-Length", "1000")], BODY[:10])
    await until(lambda: len(shared.upstream.requests) == 3)
    await half.close()

    gone, broken, unfinished = await shared.recorded(3)
    assert (gone.ended, response_of(gone)) == ("client_gone", b"data: begun\n\n")
    assert (broken.ended, response_of(broken)) == ("upstream_error", b"data: begun\n\n")
    assert (unfinished.ended, unfinished.request_body) == ("client_gone", BODY[:10])


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_upstream_that_is_down(scheme: str, tmp_path: Path) -> None:
    """Its requests are kept whole, and answered once they are: a client that is still sending
    would see a connection that breaks off."""
    large = orjson.dumps({"messages": [{"role": "user", "content": "x" * 5_000_000}]})
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"{scheme}://127.0.0.1:{nobody.getsockname()[1]}"
        async with CaptureProcess(url, tmp_path / "spool") as proxy:
            for body in (BODY, large):
                assert (await ask(proxy.port, "POST", MESSAGES, HEADERS, body)).status == 502
            slow = await Client.connect(proxy.port)
            length = ("Content-Length", str(len(BODY)))
            await slow.send("POST", MESSAGES, [*HEADERS, length], BODY[:10])
            await asyncio.sleep(0.1)
            slow.writer.write(BODY[10:])
            assert (await slow.receive()).status == 502
            await slow.close()
            counts = await proxy.stop()
    assert counts["partial"] == {"upstream_error": 3}
    assert counts["faults"] == 0
    assert counts["request_bytes"] == len(large) + 2 * len(BODY)
    exchanges = recorded(tmp_path / "spool")
    hidden = BODY.replace(KEY.encode(), b"*" * len(KEY))
    assert [exchange.request_body for exchange in exchanges] == [hidden, large, hidden]
    assert {(each.status, each.ended) for each in exchanges} == {(None, "upstream_error")}


@in_module_loop
async def test_an_upstream_that_fails_while_a_request_comes(shared: Shared) -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.reader.readexactly(100)
        exchange.abort()

    shared.behave(handle)
    large = orjson.dumps({"messages": [{"role": "user", "content": "x" * 5_000_000}]})
    assert (await ask(shared.port, "POST", MESSAGES, HEADERS, large)).status == 502
    (exchange,) = await shared.recorded(1)
    assert (exchange.ended, exchange.status) == ("upstream_error", None)
    assert exchange.request_body == large


async def test_an_upstream_over_tls(tmp_path: Path) -> None:
    """Its certificate is checked, with the authorities of SSL_CERT_FILE where that is set."""
    authority, tls = server_certificate(tmp_path / "authority")

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: over tls\n\n")
        await exchange.end()

    spool = tmp_path / "spool"
    trusting = {"SSL_CERT_FILE": str(authority)}
    async with FakeUpstream(handle, tls) as upstream:
        async with CaptureProcess(upstream.url, spool, environment=trusting) as proxy:
            answer = await ask(proxy.port, "POST", MESSAGES, HEADERS, BODY)
            assert (answer.status, answer.body) == (200, b"data: over tls\n\n")
            assert upstream.requests[0].header("host") == upstream.url.removeprefix("https://")
            await proxy.stop()
        async with CaptureProcess(upstream.url, spool) as proxy:
            assert (await ask(proxy.port, "POST", MESSAGES, HEADERS, BODY)).status == 502
            await proxy.stop()
    assert [exchange.ended for exchange in recorded(spool)] == ["complete", "upstream_error"]
    assert len(upstream.requests) == 1


def server_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A new authority's certificate, and a context with one of its making for localhost."""
    folder.mkdir()
    store = certs.CertStore.from_store(folder, "test", 2048)
    entry = store.get_cert("localhost", [x509.DNSName("localhost")])
    key = entry.privatekey.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "server.pem").write_bytes(key + entry.cert.to_pem())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    return folder / "test-ca-cert.pem", context


async def test_a_stop_lets_answers_finish(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: begun\n\n")
        await go_on.wait()
        await exchange.chunk(b"data: done\n\n")
        await exchange.end()

    spool = tmp_path / "spool"
    async with (
        FakeUpstream(handle) as upstream,
        CaptureProcess(upstream.url, spool, "--drain", "60") as proxy,
    ):
        client = await Client.connect(proxy.port)
        await client.send("POST", MESSAGES, HEADERS, BODY)
        await client.reader.readuntil(b"begun\n\n\r\n")
        proxy.signal(signal.SIGTERM)
        await until(lambda: not listens(proxy.port))
        go_on.set()
        rest = await client.reader.read()
        assert rest == b"c\r\ndata: done\n\n\r\n0\r\n\r\n"
        counts = await proxy.ended()
    assert counts["complete"] == 1
    (exchange,) = recorded(spool)
    assert response_of(exchange) == b"data: begun\n\ndata: done\n\n"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("how", ["drain", "second signal"])
async def test_a_stop_waits_no_longer_than_it_may(how: str, tmp_path: Path) -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: begun\n\n")
        await asyncio.Event().wait()

    spool = tmp_path / "spool"
    drain = "0.2" if how == "drain" else "1000"
    async with (
        FakeUpstream(handle) as upstream,
        CaptureProcess(upstream.url, spool, "--drain", drain) as proxy,
    ):
        client = await Client.connect(proxy.port)
        await client.send("POST", MESSAGES, HEADERS, BODY)
        await client.reader.readuntil(b"begun\n\n\r\n")
        proxy.signal(signal.SIGINT)
        if how == "second signal":
            await until(lambda: not listens(proxy.port))
            proxy.signal(signal.SIGINT)
        counts = await proxy.ended()
        await client.close()
    assert counts["partial"] == {"proxy_stopped": 1}
    (exchange,) = recorded(spool)
    assert (exchange.ended, response_of(exchange)) == ("proxy_stopped", b"data: begun\n\n")


@pytest.mark.parametrize("setting", ["", "missing.pem"])
async def test_authorities_that_are_not_needed(setting: str, tmp_path: Path) -> None:
    """An empty SSL_CERT_FILE names no file, and an upstream without TLS needs none."""

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.answer(200, [], b"{}")

    environment = {"SSL_CERT_FILE": setting}
    async with (
        FakeUpstream(handle) as upstream,
        CaptureProcess(upstream.url, tmp_path / "spool", environment=environment) as proxy,
    ):
        client = await Client.connect(proxy.port)
        assert (await client.ask("POST", MESSAGES, HEADERS, BODY)).status == 200
        # A connection that is idle is closed by a stop, and does not hold it up.
        assert (await proxy.stop())["complete"] == 1
        assert await client.reader.read() == b""
        await client.close()


async def test_a_kill_keeps_what_came(tmp_path: Path) -> None:
    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: begun\n\n")
        await asyncio.Event().wait()

    spool = tmp_path / "spool"
    async with FakeUpstream(handle) as upstream, CaptureProcess(upstream.url, spool) as proxy:
        clients = [await Client.connect(proxy.port) for _ in range(8)]
        for client in clients:
            await client.send("POST", MESSAGES, HEADERS, BODY)
            await client.reader.readuntil(b"begun\n\n\r\n")
        # Written within a second, streams in flight included, and readable meanwhile.
        await until(lambda: [bool(e.chunks) for e in recorded(spool)] == [True] * 8)
        await proxy.kill()
        for client in clients:
            await client.close()
    exchanges = recorded(spool)
    assert {exchange.ended for exchange in exchanges} == {"proxy_stopped"}
    assert {response_of(exchange) for exchange in exchanges} == {b"data: begun\n\n"}
    assert {exchange.end_ms for exchange in exchanges} == {None}

    # The same folder is written on by the next process.
    async with FakeUpstream(handle) as upstream, CaptureProcess(upstream.url, spool) as proxy:
        await proxy.stop()
    assert len(recorded(spool)) == 8


async def test_a_full_disk_costs_records_and_no_traffic(tmp_path: Path) -> None:
    noise = orjson.dumps({"messages": [os.urandom(20_000).hex()]})

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.answer(200, [], b'{"content": []}')

    spool = tmp_path / "spool"
    # No file may grow over 16 blocks of 512 bytes.
    limited = ("sh", "-c", 'ulimit -f 16; exec "$0" "$@"')
    async with (
        FakeUpstream(handle) as upstream,
        CaptureProcess(upstream.url, spool, through=limited) as proxy,
    ):
        for body in (BODY, noise, BODY, noise):
            answer = await ask(proxy.port, "POST", MESSAGES, HEADERS, body)
            assert (answer.status, answer.body) == (200, b'{"content": []}')
        counts = await proxy.stop()
    assert counts["lost"] == {"file_too_large": 2}
    assert counts["complete"] == 2
    reader = SpoolReader(spool)
    assert [exchange.ended for exchange in reader.exchanges()] == ["complete", "complete"]
    assert reader.cuts == []


async def test_a_spool_that_is_removed_costs_records_and_no_traffic(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        await exchange.read()
        await exchange.stream()
        await exchange.chunk(b"data: begun\n\n")
        await go_on.wait()
        await exchange.end()

    spool = tmp_path / "spool"
    async with FakeUpstream(handle) as upstream, CaptureProcess(upstream.url, spool) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", MESSAGES, HEADERS, BODY)
        await until(lambda: any(exchange.chunks for exchange in recorded(spool)))
        shutil.rmtree(spool)
        go_on.set()
        answer = await client.receive()
        assert answer.body == b"data: begun\n\n"
        assert (await client.ask("POST", MESSAGES, HEADERS, BODY)).status == 200
        await client.close()
        counts = await proxy.stop()
    assert counts["lost"] == {"spool_removed": 1}
    assert counts["complete"] == 1
    assert [exchange.ended for exchange in recorded(spool)] == ["complete"]
    assert stat.S_IMODE(spool.stat().st_mode) == 0o700


async def test_many_at_once_into_one_spool(tmp_path: Path) -> None:
    """Two proxies write to one folder, with streams in flight on both."""

    async def handle(exchange: Exchange) -> None:
        request = await exchange.read()
        await exchange.stream()
        for number in range(5):
            await exchange.chunk(b"data: %d\n\n" % number)
            await asyncio.sleep(0.02)
        await exchange.chunk(b"data: " + request.body + b"\n\n")
        await exchange.end()

    spool = tmp_path / "spool"
    async with (
        FakeUpstream(handle) as upstream,
        CaptureProcess(upstream.url, spool) as one,
        CaptureProcess(upstream.url, spool) as two,
    ):
        bodies = [b'{"n": %d}' % number for number in range(40)]
        answers = await asyncio.gather(
            *(
                ask((one, two)[n % 2].port, "POST", MESSAGES, HEADERS, body)
                for n, body in enumerate(bodies)
            )
        )
        for body, answer in zip(bodies, answers, strict=True):
            assert answer.body.endswith(b"data: " + body + b"\n\n")
        for proxy in (one, two):
            assert (await proxy.stop())["complete"] == 20
    exchanges = recorded(spool)
    assert sorted(exchange.request_body for exchange in exchanges) == sorted(bodies)
    for exchange in exchanges:
        assert response_of(exchange).endswith(b"data: " + exchange.request_body + b"\n\n")
    opened = [exchange.opened_ms for exchange in exchanges]
    assert opened == sorted(opened)
    assert len({exchange.exchange_id for exchange in exchanges}) == 40
