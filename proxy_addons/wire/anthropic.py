"""Anthropic Messages, the request: where its content stands, and in which order it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from agentx.proxy_addons.wire.content import Block, BlockKind, Media, ModelRequest
from agentx.proxy_addons.wire.values import as_count, as_dict, as_list, as_model, as_str, dicts

_SPEAKERS: dict[object, BlockKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


def parse_request(body: dict[str, Any], count_only: bool = False) -> ModelRequest:
    """The request that a JSON body makes. Entries of a wrong type count as other content."""
    return ModelRequest(
        model=as_model(body.get("model")),
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
