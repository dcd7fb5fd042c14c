"""The mitmproxy addon: passes every byte on as it came, and tells the recorder of it.

Both bodies are streamed, so that neither side waits for the proxy. Whatever goes wrong in here is
caught and counted, and the traffic goes on.
"""

# mitmproxy types only a part of what it offers.
# mypy: allow-untyped-calls

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import islice

from mitmproxy import ctx, http
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layers.http import HttpLayer
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestProtocolError,
)

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.frames import MAX_BODY
from agentx.proxy_addons.live_exchange import Head, LiveExchange
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.wire.exchange import Ended, Headers

QUIET_S = 1.0
"""How long the rest of a request is waited for whose upstream failed, since bytes last came."""
_LOOK_EVERY_S = 0.01


def held_events(flow: http.HTTPFlow) -> deque[Event]:
    """What the client sends while mitmproxy waits for its upstream's connection or for a hook."""
    for handler in ctx.master.addons.get("proxyserver").connections.values():
        if handler.client is flow.client_conn:
            for layer in handler.layer.context.layers:
                for stream in layer.streams.values() if isinstance(layer, HttpLayer) else ():
                    if getattr(stream, "flow", None) is flow:
                        return stream._paused_event_queue
    return deque()


class Tap:
    """Follows each flow from its request's head to its end."""

    def __init__(
        self,
        upstream: str,
        recorder: Recorder,
        counters: Counters,
        held: Callable[[http.HTTPFlow], deque[Event]] = held_events,
    ) -> None:
        self._held = held
        self._upstream = upstream
        self._recorder = recorder
        self._counters = counters
        self._flows: dict[str, _Following] = {}
        self._of_client: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Flows of a connection, in the order they began."""
        self._numbers = 0

    @property
    def in_flight(self) -> int:
        """Exchanges that have not ended."""
        return len(self._flows)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request's head came; its body follows."""
        try:
            following = self._follow(flow)
            flow.request.stream = following.tee_request
        except Exception:
            self._counters.fault()

    def request(self, flow: http.HTTPFlow) -> None:
        """The whole request went by."""
        following = self._flows.get(flow.id)
        if following is not None:
            self._guard(following.request_done)
            if following.ended is not None:
                self._end(flow.id, following.ended)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """The response's head came; its body follows."""
        assert flow.response is not None
        # First of all: a response that is not streamed would be held back until its end.
        flow.response.stream = True
        following = self._flows.get(flow.id)
        if following is not None:
            response = flow.response
            flow.response.stream = following.tee_response
            self._guard(lambda: following.answered(response.status_code, _headers(response)))

    def response(self, flow: http.HTTPFlow) -> None:
        """The whole response came."""
        following = self._flows.get(flow.id)
        if following is not None:
            following.over("complete")
            # An upstream may answer before it has read all; then the request still goes on.
            if following.request_is_done:
                self._end(flow.id, "complete")

    async def error(self, flow: http.HTTPFlow) -> None:
        """The exchange broke off, or the upstream could not be reached."""
        following = self._flows.get(flow.id)
        if _client_left(flow):
            self._end(flow.id, "client_gone")
        elif following is not None:
            following.over("upstream_error")
            try:
                await self._rest_of_request(following)
            except Exception:
                self._counters.fault()
            self._end(flow.id, "upstream_error")

    def client_disconnected(self, client: Client) -> None:
        """No flow of this connection goes on, whether or not mitmproxy said so of each."""
        for flow_id in list(self._of_client.pop(client.id, ())):
            following = self._flows.get(flow_id)
            self._end(flow_id, (following and following.ended) or "client_gone")

    def done(self) -> None:
        """The proxy stops; what is still going on breaks off."""
        for flow_id in list(self._flows):
            self._end(flow_id, "proxy_stopped")

    def _follow(self, flow: http.HTTPFlow) -> _Following:
        self._numbers += 1
        head = Head(
            upstream=self._upstream,
            method=flow.request.method,
            path=flow.request.data.path.decode("latin-1"),
            headers=_headers(flow.request),
            opened_ms=time.time() * 1000,
        )
        live = LiveExchange(self._numbers, head, self._recorder, self._counters)
        following = _Following(live, self._counters, lambda: self._held(flow))
        self._flows[flow.id] = following
        self._of_client[flow.client_conn.id][flow.id] = None
        following.client_id = flow.client_conn.id
        return following

    async def _rest_of_request(self, following: _Following) -> None:
        """Wait until a request has come whole whose upstream failed.

        mitmproxy streams none of it any more, and answers the client once this returns: with an
        error, which a client that is still sending could hardly read.
        """
        held, came = -1, 0.0
        while not following.request_came() and following.held_bytes <= MAX_BODY:
            if following.held_bytes != held:
                held, came = following.held_bytes, time.monotonic()
            elif time.monotonic() - came > QUIET_S:
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    def _end(self, flow_id: str, ended: Ended) -> None:
        following = self._flows.pop(flow_id, None)
        if following is None:
            return
        flows = self._of_client.get(following.client_id)
        if flows is not None:
            flows.pop(flow_id, None)
            if not flows:
                del self._of_client[following.client_id]
        at_ms = following.elapsed_ms() if following.over_at is None else following.over_at
        self._guard(following.request_came)
        self._guard(lambda: following.live.end(ended, at_ms))

    def _guard(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except Exception:
            self._counters.fault()


class _Following:
    """A live exchange with its clock, as the two callables that mitmproxy hands the bytes to."""

    def __init__(
        self, live: LiveExchange, counters: Counters, events: Callable[[], deque[Event]]
    ) -> None:
        self.live = live
        self._events = events
        self._taken = 0
        """How many of the events that mitmproxy holds."""
        self.held_bytes = 0
        self.client_id = ""
        self.request_is_done = False
        self.ended: Ended | None = None
        """How the response ended, while the request still goes on."""
        self.over_at: float | None = None
        """When it did, in milliseconds from the opening."""
        self._counters = counters
        self._opened = time.perf_counter()

    def elapsed_ms(self) -> float:
        """Since the opening; by a clock that never jumps."""
        return (time.perf_counter() - self._opened) * 1000

    def over(self, ended: Ended) -> None:
        self.ended, self.over_at = ended, self.elapsed_ms()

    def request_done(self) -> None:
        self.request_is_done = True
        self.live.request_done()

    def request_came(self) -> bool:
        """Take what mitmproxy holds of the request; whether that is its end, or the client's."""
        if self.request_is_done:
            return True
        for event in islice(self._events(), self._taken, None):
            if isinstance(event, RequestEndOfMessage | RequestProtocolError):
                return True
            self._taken += 1
            if isinstance(event, RequestData):
                self.held_bytes += len(event.data)
                self.live.request_data(event.data)
        return False

    def answered(self, status: int, headers: Headers) -> None:
        self.live.answered(status, headers, self.elapsed_ms())

    def tee_request(self, data: bytes) -> bytes:
        """Bytes of the request, unchanged."""
        try:
            if data:
                self.live.request_data(data)
        except Exception:
            self._counters.fault()
        return data

    def tee_response(self, data: bytes) -> bytes:
        """Bytes of the response, unchanged."""
        try:
            if data:
                self.live.response_data(data, self.elapsed_ms())
        except Exception:
            self._counters.fault()
        return data


def _headers(message: http.Message) -> Headers:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in message.headers.fields
    )


def _client_left(flow: http.HTTPFlow) -> bool:
    if flow.client_conn.state is not ConnectionState.OPEN:
        return True
    # Over HTTP/2 a client takes back one request and keeps the connection.
    return flow.error is not None and "by client" in flow.error.msg
