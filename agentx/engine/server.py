"""The simulated engine as an OpenAI-compatible HTTP application (aiohttp)."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from agentx import __version__
from agentx.engine.answers import Answer
from agentx.engine.api import (
    MAX_MODEL_NAME,
    MAX_OUTPUT_TOKENS,
    ApiError,
    Ask,
    parse_completion,
    parse_object,
    parse_texts,
)
from agentx.engine.cache import BLOCK_SIZE, PrefixCache
from agentx.engine.errors import EngineError
from agentx.engine.job import Job
from agentx.engine.live import LiveEngine, Ticket
from agentx.engine.metrics import MetricsPage
from agentx.engine.output import Output
from agentx.engine.prompts import PromptReader
from agentx.engine.scheduler import Scheduler
from agentx.engine.tally import FinishReason
from agentx.engine.timing import Timing

MAX_BODY = 32 * 2**20
"""Bytes of a request's body: five times a prompt of a million words."""

TOKEN_RULE = "a word, split at white space, is a token"  # noqa: S105

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a user can set."""

    model: str = "agentx-sim"
    kv_tokens: int | None = None
    """Capacity of the cache, rounded down to whole blocks; None: without end."""
    speed: float = 1.0
    """How many times faster than life the clock runs."""
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        if not 0 < self.speed < math.inf:
            raise EngineError(f"the speed is {self.speed}; give a number above 0")
        if not 0 < len(self.model) <= MAX_MODEL_NAME:
            raise EngineError(
                f"the name of the model has {len(self.model)} characters; give it with --model, "
                f"at most {MAX_MODEL_NAME} long"
            )

    @property
    def max_model_len(self) -> int | None:
        """The longest request, prompt and output together; None: any."""
        return None if self.kv_tokens is None else self.kv_tokens // BLOCK_SIZE * BLOCK_SIZE


class EngineServer:
    """Handlers around one live engine. `app` serves them; `live.run()` has to run beside."""

    def __init__(self, settings: EngineSettings) -> None:
        limit = settings.max_model_len
        cache = PrefixCache(None if limit is None else limit // BLOCK_SIZE)
        self.live = LiveEngine(Scheduler(cache, settings.timing), settings.speed)
        self._settings = settings
        self._reader = PromptReader()
        self._metrics = MetricsPage(self.live.scheduler, settings.model)
        self._started = int(time.time())
        self.app = web.Application(client_max_size=MAX_BODY, middlewares=[_errors_as_json])
        self.app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._complete),
                web.get("/v1/models", self._models),
                web.post("/tokenize", self._tokenize),
                web.post("/reset_prefix_cache", self._reset),
                web.get("/metrics", self._scrape),
                web.get("/health", self._health),
                web.get("/version", self._version),
            ]
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def _answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        body = await _body(request)
        # The engine's time does not stand still while we read the prompt.
        arrival = self.live.now()
        ask = parse_completion(body, chat=chat, reader=self._reader, model=self._settings.model)
        output = Output(ask.prompt.chain.digest())
        tokens, reason = output_length(ask, output.natural_tokens, self._settings.max_model_len)
        job = Job(
            arrival=arrival,
            prompt_tokens=ask.prompt.tokens,
            output_tokens=tokens,
            names=ask.prompt.names,
            more_names=output.block_names(ask.prompt),
            finish_reason=reason,
        )
        ticket = self.live.submit(job, every_token=ask.stream)
        try:
            answer = Answer(ask, job, output)
            if ask.stream:
                return await _stream(request, ticket, answer)
            await ticket.news()
            return _json(answer.document())
        finally:
            # Also where the client has gone: its handler is cancelled, or its connection broken.
            self.live.close(ticket)

    async def _models(self, request: web.Request) -> web.Response:
        model = {
            "id": self._settings.model,
            "object": "model",
            "created": self._started,
            "owned_by": "agentx",
            "max_model_len": self._settings.max_model_len,
            "agentx": {
                "token": TOKEN_RULE,
                "block_size": BLOCK_SIZE,
                "speed": self._settings.speed,
            },
        }
        return _json({"object": "list", "data": [model]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        document = parse_object(await _body(request))
        words = [word for text in parse_texts(document) for word in text.split()]
        return _json(
            {
                "count": len(words),
                "max_model_len": self._settings.max_model_len,
                "tokens": [zlib.crc32(word.encode()) for word in words],
                "token_strs": words if document.get("return_token_strs") is True else None,
                "agentx": {"token": TOKEN_RULE},
            }
        )

    async def _reset(self, request: web.Request) -> web.Response:
        self.live.scheduler.clear_cache()
        return _json({})

    async def _scrape(self, request: web.Request) -> web.Response:
        page = self._metrics
        return web.Response(body=page.render(), headers={"Content-Type": page.content_type})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"version": __version__, "engine": "agentx"})


def output_length(ask: Ask, natural: int, max_model_len: int | None) -> tuple[int, FinishReason]:
    """How many tokens an answer will have, and what ends it; ApiError where it can never fit."""
    room = MAX_OUTPUT_TOKENS if max_model_len is None else max_model_len - ask.prompt.tokens
    least = max(1, ask.min_tokens, ask.max_tokens or 0)
    if least > room:
        raise ApiError(
            f"This model's maximum context length is {max_model_len} tokens. However, you asked "
            f"for {ask.prompt.tokens + least} tokens ({ask.prompt.tokens} in the prompt, {least} "
            "in the completion). Shorten the prompt or the completion.",
            param="messages" if ask.chat else "prompt",
            code="context_length_exceeded",
        )
    length = max(natural, ask.min_tokens)
    if ask.ignore_eos:
        return (min(length, room) if ask.max_tokens is None else ask.max_tokens), "length"
    most = min(room, ask.max_tokens or room)
    return (length, "stop") if length < most else (most, "length")


async def _body(request: web.Request) -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise ApiError(
            f"Content-Encoding '{encoding}' is not understood; send the body as plain JSON.",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        )
    return await request.read()


async def _stream(request: web.Request, ticket: Ticket, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    sent = 0
    while True:
        await ticket.news()
        ready, done = ticket.job.generated, ticket.done
        events = answer.events(sent, ready)
        sent = ready
        try:
            await response.write(events + answer.last_events() if done else events)
        except ConnectionResetError:
            return response
        if done:
            await response.write_eof()
            return response


def _json(document: dict[str, Any] | bytes, status: int = 200) -> web.Response:
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    return web.Response(body=body, status=status, content_type="application/json")


@web.middleware
async def _errors_as_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _json(error.body(), error.status)
    except web.HTTPRequestEntityTooLarge:
        message = f"The body is larger than {MAX_BODY} bytes."
        return _json(ApiError(message).body(), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    except web.RequestPayloadError:
        return _json(ApiError("The body is not valid HTTP.").body(), HTTPStatus.BAD_REQUEST)
    except web.HTTPException as error:
        message = f"{request.method} {request.path}: {error.reason}."
        return _json(ApiError(message).body(), error.status)
