"""Anthropic Messages: where content, usage and the end stand in a request and in an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from agentx.proxy_addons.wire.content import (
    Block,
    BlockKind,
    Media,
    ModelRequest,
    ModelResponse,
    Usage,
)
from agentx.proxy_addons.wire.values import as_count, as_dict, as_list, as_name, as_str, dicts

_MAX_BLOCKS = 100_000
_SPEAKERS: dict[object, BlockKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def parse_request(body: dict[str, Any], count_only: bool = False) -> ModelRequest:
    """The request that a JSON body makes. Entries of a wrong type count as other content."""
    return ModelRequest(
        model=as_name(body.get("model")),
        blocks=tuple(_Content(body).blocks()),
        streamed=body.get("stream") is True,
        count_only=count_only,
        max_output=as_count(body.get("max_tokens")),
        output_schema=_output_schema(body),
        body_session=_session(as_dict(body.get("metadata")).get("user_id")),
    )


def _output_schema(body: dict[str, Any]) -> Any:
    form = as_dict(body.get("output_config")).get("format") or body.get("output_format")
    return as_dict(form).get("schema")


def _session(user_id: object) -> str | None:
    """Claude Code puts a JSON text, or ids joined by words, into `metadata.user_id`."""
    if not isinstance(user_id, str):
        return None
    if user_id.startswith("{"):
        try:
            return as_str(as_dict(orjson.loads(user_id)).get("session_id")) or None
        except orjson.JSONDecodeError:
            return None
    return user_id.rpartition("_session_")[2] if "_session_" in user_id else None


class _Content:
    """Walks a request in the order of its context."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._names: dict[str, str] = {}
        """Tool names by call id."""
        self._deferred: dict[str, list[dict[str, Any]]] = {}
        """Tools that are loaded later, by name, as long as nothing has named them."""

    def blocks(self) -> Iterator[Block]:
        for tool in as_list(self._body.get("tools")):
            name = as_str(as_dict(tool).get("name"))
            if isinstance(tool, dict) and tool.get("defer_loading") and name is not None:
                self._deferred.setdefault(name, []).append(tool)
            else:
                yield _definition(tool)
        yield from self._content(self._body.get("system"), "system")
        for message in as_list(self._body.get("messages")):
            if isinstance(message, dict):
                kind = _SPEAKERS.get(as_str(message.get("role")), "other")
                yield from self._content(message.get("content"), kind)
            else:
                yield Block("other", value=message)

    def _content(self, content: object, kind: BlockKind) -> Iterator[Block]:
        if isinstance(content, str):
            yield Block(kind, text=content)
            return
        for block in as_list(content):
            if isinstance(block, dict):
                yield from self._block(block, kind)
            else:
                yield Block("other", value=block)

    def _block(self, block: dict[str, Any], kind: BlockKind) -> Iterator[Block]:
        mark = block.get("cache_control")
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                yield Block(kind, text=block["text"], cache_control=mark)
            case "tool_use" | "server_tool_use":
                call = tool_call(block)
                if call.name is not None and call.call_id is not None:
                    self._names[call.call_id] = call.name
                yield call
            case "tool_result":
                yield from self._result(block, mark)
            case _:
                yield from self._rest(block, None, None)

    def _result(self, block: dict[str, Any], mark: object) -> Iterator[Block]:
        call_id = as_str(block.get("tool_use_id"))
        name = self._names.get(call_id) if call_id is not None else None
        content = block.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last: Block | None = None
        for part in as_list(parts):
            if last is not None:
                yield last
            *before, last = self._part(part, call_id, name)
            yield from before
        if last is not None:
            # The result's own mark stands at its end.
            marked = mark is not None and last.cache_control is None
            yield replace(last, cache_control=mark) if marked else last

    def _part(self, part: object, call_id: str | None, name: str | None) -> list[Block]:
        if not isinstance(part, dict):
            return [Block("other", value=part, call_id=call_id, name=name)]
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            mark = part.get("cache_control")
            return [
                Block(
                    "tool_result",
                    text=part["text"],
                    name=name,
                    call_id=call_id,
                    cache_control=mark,
                )
            ]
        return list(self._rest(part, call_id, name))

    def _rest(
        self, block: dict[str, Any], call_id: str | None, name: str | None
    ) -> Iterator[Block]:
        """Thinking, media, references to tools, and whatever else there is."""
        if self._deferred:
            for tool in _referenced(block):
                yield from map(_definition, self._deferred.pop(tool, ()))
        yield plain_block(block, call_id, name)


def tool_call(block: dict[str, Any]) -> Block:
    """A `tool_use` block."""
    return Block(
        "tool_call",
        value=block.get("input"),
        name=as_str(block.get("name")),
        call_id=as_str(block.get("id")),
        cache_control=block.get("cache_control"),
    )


def plain_block(
    block: dict[str, Any], call_id: str | None = None, name: str | None = None
) -> Block:
    """A block that is neither text nor call nor result."""
    mark = block.get("cache_control")
    match block.get("type"):
        case "thinking" if isinstance(block.get("thinking"), str):
            return Block(
                "thinking", text=block["thinking"], signature=as_str(block.get("signature"))
            )
        case "redacted_thinking":
            return Block("thinking", text="", signature=as_str(block.get("data")))
        case ("image" | "document" | "audio" | "video") as kind:
            media = _media(as_dict(block.get("source")), image=kind == "image")
            return Block("other", media=media, call_id=call_id, name=name, cache_control=mark)
        case _:
            own = as_str(block.get("tool_use_id")) or as_str(block.get("id")) or call_id
            return Block("other", value=block, call_id=own, name=name, cache_control=mark)


def _definition(tool: object) -> Block:
    fields = as_dict(tool)
    return Block(
        "tool_definition",
        value=tool,
        name=as_str(fields.get("name")),
        cache_control=fields.get("cache_control"),
    )


def _referenced(block: dict[str, Any]) -> Iterator[str]:
    """Names of the tools that a block refers to, as itself or inside a search's result."""
    if block.get("type") == "tool_reference" and isinstance(block.get("tool_name"), str):
        yield block["tool_name"]
        return
    content = block.get("content")
    for inner in (block, *dicts(content), as_dict(content)):
        for reference in dicts(inner.get("tool_references")):
            yield from _referenced(reference)
        if inner is not block and inner.get("type") == "tool_reference":
            yield from _referenced(inner)


def _media(source: dict[str, Any], image: bool) -> Media:
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        return Media(image, text=source["data"])
    if source.get("type") == "content":
        return Media(image, text=orjson.dumps(source.get("content")).decode())
    if isinstance(source.get("data"), str):
        return Media(image, data=source["data"])
    reference = as_str(source.get("url")) or as_str(source.get("file_id"))
    return Media(image, reference=reference)


class Answer:
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
        self._take_usage(as_dict(message.get("usage")), final=True)
        self._stop = as_name(message.get("stop_reason"))

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
                    if block.get("type") != "text" or block.get("text"):
                        self._output(at_ms)
            case "content_block_delta":
                self._delta(as_count(fields.get("index")), as_dict(fields.get("delta")), at_ms)
            case "message_delta":
                stop = as_name(as_dict(fields.get("delta")).get("stop_reason"))
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
        self._model = as_name(message.get("model"))

    def _output(self, at_ms: float) -> None:
        if self._first_ms is None:
            self._first_ms = at_ms

    def _fail(self, fields: dict[str, Any]) -> None:
        self._error = as_name(as_dict(fields.get("error")).get("type")) or "error"

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
                    yield plain_block(block)
