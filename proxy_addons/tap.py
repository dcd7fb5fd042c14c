"""The mitmproxy addon: passes every byte on as it came, and tells the recorder of it.

Both bodies are streamed, so that neither side waits for the proxy. Whatever goes wrong in here is
caught and counted, and the traffic goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from mitmproxy import http
from mitmproxy.connection import Client, ConnectionState

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.live_exchange import Head, LiveExchange
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.wire.exchange import Ended, Headers


class Tap:
    """Follows each flow from its request's head to its end."""

    def __init__(self, upstream: str, recorder: Recorder, counters: Counters) -> None:
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
            if following.over_at is not None:
                self._end(flow.id, "complete")

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
            following.over_at = following.elapsed_ms()
            # An upstream may answer before it has read all; then the request still goes on.
            if following.request_is_done:
                self._end(flow.id, "complete")

    def error(self, flow: http.HTTPFlow) -> None:
        """The exchange broke off, or the upstream could not be reached."""
        self._end(flow.id, "client_gone" if _client_left(flow) else "upstream_error")

    def client_disconnected(self, client: Client) -> None:
        """No flow of this connection goes on, whether or not mitmproxy said so of each."""
        for flow_id in list(self._of_client.pop(client.id, ())):
            following = self._flows.get(flow_id)
            whole = following is not None and following.over_at is not None
            self._end(flow_id, "complete" if whole else "client_gone")

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
        following = _Following(live, self._counters)
        self._flows[flow.id] = following
        self._of_client[flow.client_conn.id][flow.id] = None
        following.client_id = flow.client_conn.id
        return following

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
        self._guard(lambda: following.live.end(ended, at_ms))

    def _guard(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:
            self._counters.fault()


class _Following:
    """A live exchange with its clock, as the two callables that mitmproxy hands the bytes to."""

    def __init__(self, live: LiveExchange, counters: Counters) -> None:
        self.live = live
        self.client_id = ""
        self.request_is_done = False
        self.over_at: float | None = None
        """When the whole response had come, in milliseconds from the opening."""
        self._counters = counters
        self._opened = time.perf_counter()

    def elapsed_ms(self) -> float:
        """Since the opening; by a clock that never jumps."""
        return (time.perf_counter() - self._opened) * 1000

    def request_done(self) -> None:
        self.request_is_done = True
        self.live.request_done()

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
