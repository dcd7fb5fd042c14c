"""Anthropic Messages, the answer: content, usage and the end, from a stream or a whole body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agentx.proxy_addons.wire.anthropic import plain_block, tool_call
from agentx.proxy_addons.wire.content import UNNAMED_ERROR, Block, ModelResponse, Usage
from agentx.proxy_addons.wire.values import (
    as_count,
    as_dict,
    as_model,
    as_str,
    as_word,
    dicts,
    parse_json,
)

_MAX_BLOCKS = 100_000


class AnthropicAnswer:
    """An answer, event by event or as one body."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._usage: dict[str, int] = {}
        self._stop: str | None = None
        self._error: str | None = None
        self._first_ms: float | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._deltas: dict[int, list[str]] = {}

    def body(self, value: object, at_ms: float) -> None:
        """A whole answer."""
        message = as_dict(value)
        if message.get("type") == "error":
            self._fail(message)
            return
        self._start(message)
        for index, block in enumerate(dicts(message.get("content"))):
            self._blocks[index] = block
            self._first_ms = at_ms
        # A count of tokens is an answer of one number, outside of `usage`.
        counts = as_dict(message.get("usage")) or {"input_tokens": message.get("input_tokens")}
        self._take_usage(counts, final=True)
        self._stop = as_word(message.get("stop_reason"))

    def event(self, name: str, value: object, at_ms: float) -> None:
        """The next event of a stream; its `event` line's name, its data's value."""
        fields = as_dict(value)
        match fields.get("type", name):
            case "message_start":
                message = as_dict(fields.get("message"))
                self._start(message)
                self._take_usage(as_dict(message.get("usage")), final=False)
            case "content_block_start":
                index = as_count(fields.get("index"))
                block = as_dict(fields.get("content_block"))
                if index is not None and block and len(self._blocks) < _MAX_BLOCKS:
                    self._blocks.setdefault(index, block)
                    if block.get("type") not in ("text", "thinking") or (
                        block.get("text") or block.get("thinking")
                    ):
                        self._output(at_ms)
            case "content_block_delta":
                self._delta(as_count(fields.get("index")), as_dict(fields.get("delta")), at_ms)
            case "message_delta":
                stop = as_word(as_dict(fields.get("delta")).get("stop_reason"))
                self._stop = stop or self._stop
                self._take_usage(as_dict(fields.get("usage")), final=True)
            case "error":
                self._fail(fields)

    def response(self) -> ModelResponse:
        """What came so far."""
        usage = self._usage
        fresh = usage.get("input_tokens")
        cached = usage.get("cache_read_input_tokens")
        written = usage.get("cache_creation_input_tokens")
        return ModelResponse(
            model=self._model,
            blocks=tuple(self._output_blocks()),
            usage=Usage(
                input=None if fresh is None else fresh + (cached or 0) + (written or 0),
                cached=cached,
                cache_write=written,
                output=usage.get("output_tokens"),
            ),
            stop_reason=self._stop,
            error=self._error,
            first_output_ms=self._first_ms,
        )

    def _start(self, message: dict[str, Any]) -> None:
        self._model = as_model(message.get("model"))

    def _output(self, at_ms: float) -> None:
        if self._first_ms is None:
            self._first_ms = at_ms

    def _fail(self, fields: dict[str, Any]) -> None:
        self._error = as_word(as_dict(fields.get("error")).get("type")) or UNNAMED_ERROR

    def _take_usage(self, usage: dict[str, Any], final: bool) -> None:
        """Input counts only grow: some servers repeat them at the end as 0, some send them only
        there. The output's count at the start is a running one, and no count of the output."""
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            count = as_count(usage.get(key))
            if count is not None:
                self._usage[key] = max(count, self._usage.get(key, 0))
        output = as_count(usage.get("output_tokens"))
        if final and output is not None:
            self._usage["output_tokens"] = output

    def _delta(self, index: int | None, delta: dict[str, Any], at_ms: float) -> None:
        if index is None or index >= _MAX_BLOCKS:
            return
        for key in ("text", "thinking", "partial_json"):
            piece = as_str(delta.get(key))
            if piece:
                self._output(at_ms)
                self._deltas.setdefault(index, []).append(piece)
                # A stream whose start was lost still tells by its deltas what it is.
                self._blocks.setdefault(index, {"type": key})

    def _output_blocks(self) -> Iterator[Block]:
        for index, block in sorted(self._blocks.items()):
            pieces = "".join(self._deltas.get(index, ()))
            match block.get("type"):
                case "text":
                    yield Block("assistant", text=(as_str(block.get("text")) or "") + pieces)
                case "tool_use" | "server_tool_use":
                    call = tool_call(block)
                    yield replace(call, value=pieces) if pieces else call
                case "thinking":
                    start = as_str(block.get("thinking")) or ""
                    yield Block("thinking", text=start + pieces)
                case "partial_json":
                    continue
                case _:
                    yield plain_block(_with_input(block, pieces))


def _with_input(block: dict[str, Any], pieces: str) -> dict[str, Any]:
    """A block of another kind (`mcp_tool_use`) as it stands in the next request."""
    if not pieces or "input" not in block:
        return block
    try:
        return {**block, "input": parse_json(pieces.encode())}
    except ValueError:
        return {**block, "input": pieces}
