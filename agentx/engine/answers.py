"""Responses of the OpenAI-compatible API: whole documents and streamed events, as bytes.

A stream's events differ from one another in one word, so that they are put together from bytes
made once a request.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import orjson

from agentx.engine.api import Ask
from agentx.engine.job import Job
from agentx.engine.output import WORDS, Output

_FIRST = tuple(word.encode() for word in WORDS)
_LATER = tuple(b" " + word for word in _FIRST)
_DONE = b"data: [DONE]\n\n"


class Answer:
    """The response to one request: `events` in pieces for a stream, or `document` at the end."""

    def __init__(self, ask: Ask, job: Job, output: Output) -> None:
        self._ask = ask
        self._job = job
        self._output = output
        kind = "chat.completion" if ask.chat else "text_completion"
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": f"{kind}.chunk" if ask.chat and ask.stream else kind,
            "created": int(time.time()),
            "model": ask.model,
        }
        if ask.stream:
            # From the right: the model's name comes before, and may hold anything.
            self._before, self._after = self._event(self._choice("\0")).rsplit(b"\\u0000", 1)
            self._between = self._after + self._before

    def events(self, start: int, stop: int) -> bytes:
        """The events of tokens `start` to `stop`; the first brings the role before it."""
        parts = []
        if start == 0 < stop and self._ask.chat:
            parts.append(self._event(self._choice("", role="assistant")))
        words = [_LATER[index] for index in self._output.indices(start, stop)]
        if start == 0 < stop:
            words[0] = words[0][1:]
        if words:
            parts += [self._before, self._between.join(words), self._after]
        return b"".join(parts)

    def last_events(self) -> bytes:
        """What follows the last token: the finish reason, the usage if asked for, and the end.

        The last of them before `[DONE]` carries the engine's own times under `agentx`.
        """
        finish = self._choice(None, finish_reason=self._job.finish_reason)
        if not self._ask.include_usage:
            return self._event(finish, agentx=own_times(self._job)) + _DONE
        return b"".join(
            (
                self._event(finish),
                self._event(None, usage=usage(self._job), agentx=own_times(self._job)),
                _DONE,
            )
        )

    def document(self) -> bytes:
        """The whole answer of a request that is not streamed."""
        text = self._output.text(self._job.output_tokens)
        choice: dict[str, Any] = {"index": 0}
        if self._ask.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": self._job.finish_reason}
        return orjson.dumps(
            self._head
            | {"choices": [choice], "usage": usage(self._job), "agentx": own_times(self._job)}
        )

    def _choice(
        self, text: str | None, role: str | None = None, finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0}
        if self._ask.chat:
            delta = {"role": role, "content": text}
            choice["delta"] = {key: value for key, value in delta.items() if value is not None}
        else:
            choice["text"] = text or ""
        return choice | {"logprobs": None, "finish_reason": finish_reason}

    def _event(self, choice: dict[str, Any] | None, **more: Any) -> bytes:
        choices = [] if choice is None else [choice]
        return b"data: " + orjson.dumps(self._head | {"choices": choices} | more) + b"\n\n"


def usage(job: Job) -> dict[str, Any]:
    """Token counts of a request that has ended."""
    return {
        "prompt_tokens": job.prompt_tokens,
        "completion_tokens": job.generated,
        "total_tokens": job.tokens,
        "prompt_tokens_details": {"cached_tokens": job.cached_tokens},
    }


def own_times(job: Job) -> dict[str, Any]:
    """The engine's own times of a request that has ended, in milliseconds of its clock."""
    assert job.started_at is not None
    assert job.first_token_at is not None
    assert job.last_token_at is not None
    gaps = job.generated - 1
    return {
        "queue_ms": _ms(job.started_at - job.arrival),
        "ttft_ms": _ms(job.first_token_at - job.arrival),
        "tpot_ms": _ms((job.last_token_at - job.first_token_at) / gaps) if gaps else None,
        "e2e_ms": _ms(job.last_token_at - job.arrival),
        "cached_tokens": job.cached_tokens,
        "preemptions": job.preemptions,
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
