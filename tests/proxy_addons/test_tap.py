"""The addon with mitmproxy's own flows, no sockets."""

# mitmproxy types only a part of what it offers.
# mypy: allow-untyped-calls

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mitmproxy")

from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error
from mitmproxy.http import HTTPFlow, Request, Response
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layers.http._events import RequestData, RequestEndOfMessage
from mitmproxy.test import taddons, tflow

from agentx.proxy_addons import tap
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
        self.held: deque[Event] = deque()
        self.tap = Tap("up", self.recorder, self.counters, lambda flow: self.held)

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
async def test_who_broke_off(setup: Setup, how: Callable[[HTTPFlow], None], ended: str) -> None:
    flow = flow_of()
    ask(setup, flow)
    answer(setup, flow, b"some")
    how(flow)
    await setup.tap.error(flow)
    (exchange,) = setup.recorded()
    assert exchange.ended == ended
    assert exchange.chunks[0].data == b"some"
    assert setup.counters.snapshot()["partial"] == {ended: 1}


async def test_a_stop_ends_what_is_in_flight(setup: Setup) -> None:
    flow = flow_of()
    ask(setup, flow)
    answer(setup, flow, b"some")
    setup.tap.done()
    assert passed(flow.response and flow.response.stream, b"more") == b"more"
    gone(flow)
    await setup.tap.error(flow)
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


async def test_an_upstream_that_fails_costs_no_part_of_the_request(setup: Setup) -> None:
    flow = flow_of()
    setup.tap.requestheaders(flow)
    passed(flow.request.stream, b"streamed, ")
    broken(flow)
    setup.held.append(RequestData(1, b"held, "))
    failing = asyncio.create_task(setup.tap.error(flow))
    await asyncio.sleep(0.05)
    assert setup.tap.in_flight == 1
    setup.held.extend((RequestData(1, b"late"), RequestEndOfMessage(1)))
    await failing
    # What mitmproxy lets go of afterwards was taken already.
    assert passed(flow.request.stream, b"held, ") == b"held, "
    (exchange,) = setup.recorded()
    assert exchange.request_body == b"streamed, held, late"
    assert (exchange.ended, exchange.status) == ("upstream_error", None)
    counts = setup.counters.snapshot()
    assert counts["request_bytes"] == len(exchange.request_body)
    assert (counts["partial"], counts["faults"]) == ({"upstream_error": 1}, 0)


@pytest.mark.parametrize(
    ("leave", "ended"), [("client_disconnected", "client_gone"), ("done", "proxy_stopped")]
)
def test_what_is_held_is_kept_when_nobody_waits_any_more(
    setup: Setup, leave: str, ended: str
) -> None:
    """An upstream that does not answer to a connection at all may outlast the client."""
    flow = flow_of()
    setup.tap.requestheaders(flow)
    setup.held.extend((RequestData(1, b"{}"), RequestEndOfMessage(1)))
    if leave == "done":
        setup.tap.done()
    else:
        setup.tap.client_disconnected(flow.client_conn)
    (exchange,) = setup.recorded()
    assert (exchange.request_body, exchange.ended) == (b"{}", ended)


async def test_the_rest_of_a_request_is_not_waited_for_without_end(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap, "QUIET_S", 0.05)
    flow = flow_of()
    setup.tap.requestheaders(flow)
    setup.held.append(RequestData(1, b"half"))
    broken(flow)
    await setup.tap.error(flow)
    monkeypatch.setattr(tap, "MAX_BODY", 3)
    monkeypatch.setattr(tap, "QUIET_S", 1e9)
    endless = flow_of()
    setup.tap.requestheaders(endless)
    broken(endless)
    await setup.tap.error(endless)
    exchanges = setup.recorded()
    assert [(each.request_body, each.ended) for each in exchanges] == [
        (b"half", "upstream_error"),
        (b"half", "upstream_error"),
    ]


async def test_a_fault_while_waiting_for_the_rest(setup: Setup) -> None:
    def fail(flow: HTTPFlow) -> deque[Event]:
        raise LookupError("mitmproxy has changed")

    failing = Tap("up", setup.recorder, setup.counters, fail)
    flow = flow_of()
    failing.requestheaders(flow)
    broken(flow)
    await failing.error(flow)
    assert failing.in_flight == 0
    assert [exchange.ended for exchange in setup.recorded()] == ["upstream_error"]
    assert setup.counters.snapshot()["faults"] >= 1


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


async def test_what_goes_by_unfollowed_is_streamed_too(setup: Setup) -> None:
    flow = tflow.tflow(resp=True)
    setup.tap.responseheaders(flow)
    assert flow.response is not None
    assert flow.response.stream is True
    setup.tap.request(flow)
    setup.tap.response(flow)
    await setup.tap.error(flow)
    assert setup.counters.snapshot()["requests"] == 0
