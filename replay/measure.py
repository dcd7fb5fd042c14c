"""What a streamed answer tells: when its output came, how much, and how it ended.

Pure and incremental: the transport stamps bytes as they arrive and hands them in, so that parsing
never moves a time stamp. What the server does not say stays None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agentx.proxy_addons.wire.sse import SseDecoder, SseEvent

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""A longer event ends the request as broken."""

MAX_EVENTS = 1_000_000
"""More output events than this end the request as broken: nobody asked for so many tokens."""

_OTHER_OUTPUT = (
    "reasoning_content",
    "reasoning",
    "tool_calls",
    "text",
    "refusal",
    "function_call",
    "audio",
)


class StreamError(ValueError):
    """The stream is none that an OpenAI-compatible server sends; the text says why."""


class StreamMeter:
    """Takes (time, bytes) of one answer's body; its attributes say what has been seen so far.

    Times are seconds on the caller's clock. An output event carries text, reasoning, a tool call
    or a refusal; a frame with only a role, or with nothing in its delta, is none.
    """

    __slots__ = (
        "_decoder",
        "_now",
        "cached_tokens",
        "done",
        "engine",
        "error",
        "events",
        "finish_reason",
        "first_byte",
        "first_event_tokens",
        "output_tokens",
        "progressed",
        "prompt_tokens",
    )

    def __init__(self) -> None:
        self._decoder = SseDecoder(MAX_EVENT_BYTES)
        self._now = 0.0
        self.first_byte: float | None = None
        self.events: list[float] = []
        """When each output event came; of several that came in one piece, the same time."""
        self.first_event_tokens: int | None = None
        """Tokens of the first output event, where the server counts them as it goes."""
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.finish_reason: str | None = None
        self.progressed: float | None = None
        """When an event of any kind was last complete; a comment is none."""
        self.error: str | None = None
        """What an error event said."""
        self.engine: Mapping[str, Any] = {}
        """The server's own times (`agentx` of its last event), unchecked."""
        self.done = False
        """`[DONE]` came."""

    def feed(self, now: float, data: bytes) -> None:
        """Take the bytes that arrived at `now`.

        Raises:
            StreamError: an event is no JSON object, too long, or there are too many.
        """
        if self.first_byte is None:
            self.first_byte = now
        self._now = now
        for event in self._decoder.feed(data):
            self.progressed = now
            self._event(event)
        if self._decoder.oversized:
            raise StreamError(f"an event is longer than {MAX_EVENT_BYTES} bytes")

    def close(self) -> None:
        """The body has ended: use an event whose closing blank line never came.

        Raises:
            StreamError: it is no JSON object.
        """
        if (event := self._decoder.close()) is not None:
            self._event(event)

    @property
    def finished(self) -> bool:
        """The server said that its answer is whole."""
        return self.done or self.finish_reason is not None

    def _event(self, event: SseEvent) -> None:
        if event.data == b"[DONE]":
            self.done = True
            return
        try:
            document = orjson.loads(event.data)
        except ValueError:
            if event.event == "error":
                self.error = event.data.decode("utf-8", "replace") or "error"
                return
            raise StreamError("an event is no JSON") from None
        if not isinstance(document, dict):
            raise StreamError("an event is no JSON object")
        self._document(document, is_error=event.event == "error")

    def _document(self, document: dict[str, Any], *, is_error: bool) -> None:
        # This runs for every token of a run: lookups that mostly find nothing come last.
        get = document.get
        choices = get("choices")
        has_output = False
        if choices and isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and self._choice(choice):
                    has_output = True
        if has_output:
            if len(self.events) >= MAX_EVENTS:
                raise StreamError(f"more than {MAX_EVENTS} output events came")
            self.events.append(self._now)
        if is_error or get("error") or get("object") == "error":
            self.error = error_message(document)
        if usage := get("usage"):
            self._usage(usage, first=has_output and len(self.events) == 1)
        if isinstance(engine := get("agentx"), dict):
            self.engine = engine

    def _choice(self, choice: dict[str, Any]) -> bool:
        """Note how a choice ended; return whether it carries output."""
        if isinstance(reason := choice.get("finish_reason"), str):
            self.finish_reason = reason
        delta = choice.get("delta")
        carrier = delta if isinstance(delta, dict) else choice
        if carrier.get("content"):
            return True
        return any(carrier.get(name) for name in _OTHER_OUTPUT)

    def _usage(self, usage: object, *, first: bool) -> None:
        """Counts that come with every event (some servers) grow: the last one stands."""
        if not isinstance(usage, dict):
            return
        if (prompt := count(usage.get("prompt_tokens"))) is not None:
            self.prompt_tokens = prompt
        if (output := count(usage.get("completion_tokens"))) is not None:
            self.output_tokens = output
            if first and output > 0:
                self.first_event_tokens = output
        if (cached := cached_tokens(usage)) is not None:
            self.cached_tokens = cached


def cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """Prompt tokens that the server says it found in its cache; None where it does not say.

    The field of OpenAI's API first, then where other hosts put the same number.
    """
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and (found := count(details.get("cached_tokens"))) is not None:
        return found
    for name in ("cached_tokens", "prompt_cache_hit_tokens"):
        if (found := count(usage.get(name))) is not None:
            return found
    return None


def count(value: object) -> int | None:
    """A number of tokens as a server gave it; None for whatever is no count."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        return None
    return value


def error_message(document: Mapping[str, Any]) -> str:
    """The sentence in an error document of an OpenAI-compatible server, else the document."""
    error = document.get("error", document)
    if isinstance(error, dict):
        for name in ("message", "detail", "type", "code"):
            if value := error.get(name):
                return str(value)
    if isinstance(error, str) and error:
        return error
    return orjson.dumps(document).decode("utf-8", "replace")


def tpot_ms(
    events_ms: list[float], output_tokens: int | None, first_tokens: int | None
) -> tuple[float | None, bool | None]:
    """Time per output token of one request, and whether it rests on an assumption.

    (last output − first output) ÷ (output tokens − tokens of the first event); those of the first
    event count as 1 where the server did not say. (None, None) where it cannot be worked out.
    """
    if output_tokens is None or len(events_ms) < 2:
        return None, None
    later = output_tokens - (first_tokens or 1)
    if later <= 0:
        return None, None
    return (events_ms[-1] - events_ms[0]) / later, first_tokens is None
