"""The addon with mitmproxy's own flows, no sockets."""

# mitmproxy types only a part of what it offers.
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mitmproxy")

from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error
from mitmproxy.http import HTTPFlow, Request, Response
from mitmproxy.test import taddons, tflow

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.identities import Pseudonyms
from agentx.proxy_addons.live_exchange import LiveExchange
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.spool import read_spool
from agentx.proxy_addons.tap import Tap
from agentx.proxy_addons.wire.exchange import Exchange
from agentx.proxy_addons.writer import ExchangeWriter
from tests.proxy_addons.spools import NOW_MS


class Setup:
    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.counters = Counters()
        segments = SegmentWriter(spool, lambda: NOW_MS)
        writer = ExchangeWriter(segments, Pseudonyms(b"k" * 32), self.counters)
        self.recorder = Recorder(writer, self.counters)
        self.recorder.start()
        self.tap = Tap("up", self.recorder, self.counters)

    def recorded(self) -> list[Exchange]:
        assert self.recorder.stop(10)
        return list(read_spool(self.spool))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path / "spool")


def flow_of(path: str = "/v1/messages") -> HTTPFlow:
    request = Request.make("POST", f"http://up.test{path}", b"", [(b"x-api-key", b"k" * 20)])
    flow = tflow.tflow(req=request)
    flow.client_conn.state = ConnectionState.OPEN
    return flow


def passed(stream: object, data: bytes) -> object:
    assert callable(stream)
    return stream(data)


def ask(setup: Setup, flow: HTTPFlow, body: bytes = b"{}") -> None:
    setup.tap.requestheaders(flow)
    assert passed(flow.request.stream, body) is body
    assert passed(flow.request.stream, b"") == b""
    setup.tap.request(flow)


def answer(setup: Setup, flow: HTTPFlow, *chunks: bytes) -> None:
    flow.response = Response.make(200, b"", {"content-type": "text/event-stream"})
    setup.tap.responseheaders(flow)
    for chunk in chunks:
        assert passed(flow.response.stream, chunk) is chunk


def test_a_flow_from_its_head_to_its_end(setup: Setup) -> None:
    flow = flow_of()
    ask(setup, flow, b'{"n": 1}')
    answer(setup, flow, b"data: 1\n\n", b"data: 2\n\n")
    assert setup.tap.in_flight == 1
    setup.tap.response(flow)
    assert setup.tap.in_flight == 0
    setup.tap.client_disconnected(flow.client_conn)
    setup.tap.done()
    (exchange,) = setup.recorded()
    assert (exchange.upstream, exchange.method, exchange.path) == ("up", "POST", "/v1/messages")
    assert exchange.request_body == b'{"n": 1}'
    assert [chunk.data for chunk in exchange.chunks] == [b"data: 1\n\n", b"data: 2\n\n"]
    assert exchange.ended == "complete"
    assert exchange.end_ms is not None
    assert 0 <= exchange.chunks[0].at_ms <= exchange.chunks[1].at_ms <= exchange.end_ms


def test_the_hooks_are_those_that_mitmproxy_calls(setup: Setup) -> None:
    with taddons.context(setup.tap, loadcore=False) as context:
        assert context.master.addons.get("tap") is setup.tap


async def test_mitmproxys_own_cycle_of_events(setup: Setup) -> None:
    flow = tflow.tflow(req=Request.make("POST", "http://up.test/v1/messages"), resp=True)
    with taddons.context(setup.tap, loadcore=False) as context:
        await context.cycle(setup.tap, flow)
    assert flow.response is not None
    assert callable(flow.response.stream)
    assert [exchange.ended for exchange in setup.recorded()] == ["complete"]


def gone(flow: HTTPFlow) -> None:
    flow.client_conn.state = ConnectionState.CLOSED
    flow.error = Error("Client disconnected.")


def cancelled(flow: HTTPFlow) -> None:
    flow.error = Error("stream reset by client (CANCEL)")


def broken(flow: HTTPFlow) -> None:
    flow.error = Error("peer closed connection without sending complete message body")


@pytest.mark.parametrize(
    ("how", "ended"),
    [(gone, "client_gone"), (cancelled, "client_gone"), (broken, "upstream_error")],
)
def test_who_broke_off(setup: Setup, how: Callable[[HTTPFlow], None], ended: str) -> None:
    flow = flow_of()
    ask(setup, flow)
    answer(setup, flow, b"some")
    how(flow)
    setup.tap.error(flow)
    (exchange,) = setup.recorded()
    assert exchange.ended == ended
    assert exchange.chunks[0].data == b"some"
    assert setup.counters.snapshot()["partial"] == {ended: 1}


def test_a_stop_ends_what_is_in_flight(setup: Setup) -> None:
    flow = flow_of()
    ask(setup, flow)
    answer(setup, flow, b"some")
    setup.tap.done()
    assert passed(flow.response and flow.response.stream, b"more") == b"more"
    gone(flow)
    setup.tap.error(flow)
    (exchange,) = setup.recorded()
    assert exchange.ended == "proxy_stopped"
    assert [chunk.data for chunk in exchange.chunks] == [b"some"]


def test_a_client_that_leaves_without_a_word_leaves_nothing_in_flight(setup: Setup) -> None:
    half, whole = flow_of(), flow_of()
    whole.client_conn = half.client_conn
    for flow in (half, whole):
        setup.tap.requestheaders(flow)
        passed(flow.request.stream, b"{}")
    answer(setup, whole, b"too large")
    setup.tap.response(whole)  # while its request is still being sent
    assert setup.tap.in_flight == 2
    setup.tap.client_disconnected(half.client_conn)
    assert setup.tap.in_flight == 0
    assert [exchange.ended for exchange in setup.recorded()] == ["client_gone", "complete"]


def test_an_answer_before_the_request_is_whole_waits_for_it(setup: Setup) -> None:
    flow = flow_of()
    setup.tap.requestheaders(flow)
    passed(flow.request.stream, b"a")
    answer(setup, flow, b"answer")
    setup.tap.response(flow)
    passed(flow.request.stream, b"b")
    setup.tap.request(flow)
    assert setup.tap.in_flight == 0
    (exchange,) = setup.recorded()
    assert (exchange.request_body, exchange.ended) == (b"ab", "complete")


@pytest.mark.parametrize(
    "method", ["__init__", "request_data", "request_done", "answered", "response_data", "end"]
)
def test_whatever_fails_in_here_the_bytes_pass(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(LiveExchange, method, fail)
    flow = flow_of()
    setup.tap.requestheaders(flow)
    if method == "__init__":
        assert flow.request.stream is False, "mitmproxy passes it on by itself"
    else:
        assert passed(flow.request.stream, b"{}") == b"{}"
    setup.tap.request(flow)
    flow.response = Response.make(200)
    setup.tap.responseheaders(flow)
    if method == "__init__":
        assert flow.response.stream is True
    else:
        assert passed(flow.response.stream, b"data") == b"data"
    setup.tap.response(flow)
    assert setup.tap.in_flight == 0
    assert setup.counters.snapshot()["faults"] >= 1


def test_what_goes_by_unfollowed_is_streamed_too(setup: Setup) -> None:
    flow = tflow.tflow(resp=True)
    setup.tap.responseheaders(flow)
    assert flow.response is not None
    assert flow.response.stream is True
    for hook in (setup.tap.request, setup.tap.response, setup.tap.error):
        hook(flow)
    assert setup.counters.snapshot()["requests"] == 0
