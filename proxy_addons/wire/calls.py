"""From an exchange to the model call that it carries, if it carries one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from agentx.proxy_addons.providers import dialect_of
from agentx.proxy_addons.wire import anthropic, chat
from agentx.proxy_addons.wire.anthropic_answer import AnthropicAnswer
from agentx.proxy_addons.wire.content import UNNAMED_ERROR, ModelRequest, ModelResponse
from agentx.proxy_addons.wire.encodings import BodyDecoder, Problem, decode_body
from agentx.proxy_addons.wire.exchange import Exchange, header
from agentx.proxy_addons.wire.identity import Identity, identify
from agentx.proxy_addons.wire.sse import SseDecoder, SseEvent
from agentx.proxy_addons.wire.values import as_dict, parse_json

Status: TypeAlias = Literal["ok", "error", "cancelled", "partial"]

NoCall: TypeAlias = Literal["no model call", "unreadable request"]
"""Why an exchange makes no request of a data set. A body in an unknown or damaged encoding, or
that is no JSON object, is unreadable."""

AnswerProblem: TypeAlias = Problem | Literal["not understood", "not kept"]
"""Why an answer's body, or its rest, could not be read."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model and what came of it. Times are milliseconds."""

    request: ModelRequest
    response: ModelResponse
    identity: Identity
    opened_ms: float
    """Wall clock, since 1970."""
    first_output_ms: float | None
    """From the opening, as `end_ms`."""
    end_ms: float | None
    status: Status
    streamed: bool
    response_problem: AnswerProblem | None


def read_call(exchange: Exchange) -> ModelCall | NoCall:
    """The model call that an exchange carries, or why there is none."""
    dialect = dialect_of(exchange.method, exchange.path)
    if dialect is None:
        return "no model call"
    count_only = exchange.path.partition("?")[0].rstrip("/").endswith("/count_tokens")
    encoding = header(exchange.request_headers, "content-encoding")
    data, problem = decode_body(exchange.request_body, encoding)
    try:
        body = parse_json(data) if problem is None else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return "unreadable request"
    if dialect == "anthropic":
        request = anthropic.parse_request(body, count_only)
    else:
        request = chat.parse_request(body)
    answer = _Answer(dialect, exchange)
    response = answer.read()
    status = _status(exchange, response, count_only)
    if status == "error" and response.error is None:
        response = replace(response, error="upstream_error")
    return ModelCall(
        request=request,
        response=response,
        identity=identify(exchange.request_headers, request),
        opened_ms=exchange.opened_ms,
        first_output_ms=response.first_output_ms,
        end_ms=exchange.end_ms,
        status=status,
        streamed=answer.streamed if exchange.chunks else request.streamed,
        response_problem=answer.problem,
    )


def _status(exchange: Exchange, response: ModelResponse, count_only: bool) -> Status:
    """A turn whose stop reason came is whole, whatever happened to the connection after it."""
    failed = exchange.status is not None and exchange.status >= 400
    if failed or response.error is not None:
        return "error"
    if response.stop_reason is not None or (count_only and exchange.status is not None):
        return "ok"
    if exchange.ended == "client_gone":
        return "cancelled"
    if exchange.ended == "upstream_error" and response.first_output_ms is None:
        return "error"
    return "partial"


class _Reader(Protocol):
    """A dialect's answer."""

    def body(self, value: object, at_ms: float) -> None: ...
    def event(self, name: str, value: object, at_ms: float) -> None: ...
    def response(self) -> ModelResponse: ...


class _Answer:
    """Reads an exchange's answer, each piece at the time it came."""

    def __init__(self, dialect: str, exchange: Exchange) -> None:
        self._exchange = exchange
        self._reader: _Reader = AnthropicAnswer() if dialect == "anthropic" else chat.ChatAnswer()
        self._understood = False
        self.problem: AnswerProblem | None = None
        self.streamed = _is_stream(exchange)

    def read(self) -> ModelResponse:
        """What came back, as far as it can be understood."""
        encoding = header(self._exchange.response_headers, "content-encoding")
        decoder = BodyDecoder(encoding)
        if self.streamed:
            self._read_stream(decoder)
        else:
            self._read_body(decoder)
        self.problem = decoder.problem
        if self.problem is None and self._exchange.chunks and not self._understood:
            self.problem = "not understood" if self._kept() else "not kept"
        response = self._reader.response()
        if response.error in (None, UNNAMED_ERROR) and (self._exchange.status or 0) >= 400:
            return replace(response, error=f"http_{self._exchange.status}")
        return response

    def _kept(self) -> bool:
        """Whether the answer's bytes are there. The recorder keeps the times of those that it could
        not decode, and ends its record where it cannot go on."""
        return self._exchange.ended != "proxy_stopped" and any(
            chunk.data for chunk in self._exchange.chunks
        )

    def _read_stream(self, decoder: BodyDecoder) -> None:
        events = SseDecoder()
        at_ms = 0.0
        for chunk in self._exchange.chunks:
            at_ms = chunk.at_ms
            for event in events.feed(decoder.feed(chunk.data)):
                self._take(event, at_ms)
        if (last := events.close()) is not None:
            self._take(last, at_ms)

    def _take(self, event: SseEvent, at_ms: float) -> None:
        try:
            value = parse_json(event.data)
        except ValueError:
            return  # [DONE], keep-alives, or cut off
        self._understood = True
        self._reader.event(event.event, value, at_ms)

    def _read_body(self, decoder: BodyDecoder) -> None:
        data = b"".join([decoder.feed(chunk.data) for chunk in self._exchange.chunks])
        try:
            value = parse_json(data)
        except ValueError:
            return
        self._understood = bool(as_dict(value))
        self._reader.body(value, self._exchange.chunks[-1].at_ms)


def _is_stream(exchange: Exchange) -> bool:
    kind = header(exchange.response_headers, "content-type")
    if kind is not None:
        return kind.lower().lstrip().startswith("text/event-stream")
    return any(c.data.startswith((b"data:", b"event:", b":")) for c in exchange.chunks[:1])
