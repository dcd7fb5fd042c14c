"""OpenAI Chat Completions: where content, usage and the end stand in a request and in an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentx.proxy_addons.wire.content import (
    UNNAMED_ERROR,
    Block,
    BlockKind,
    Media,
    ModelRequest,
    ModelResponse,
    Usage,
)
from agentx.proxy_addons.wire.values import (
    as_count,
    as_dict,
    as_list,
    as_model,
    as_str,
    as_word,
    dicts,
)

_MAX_CALLS = 10_000
_SPEAKERS: dict[object, BlockKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
}
_TEXTS = ("text", "input_text", "output_text")
_MEDIA = ("image_url", "input_audio", "file", "video_url")
"""Media parts; each keeps its source under a key of the same name."""


def parse_request(body: dict[str, Any]) -> ModelRequest:
    """The request that a JSON body makes. Entries of a wrong type count as other content."""
    form = as_dict(body.get("response_format"))
    limit = as_count(body.get("max_completion_tokens"))
    return ModelRequest(
        model=as_model(body.get("model")),
        blocks=tuple(_blocks(body)),
        streamed=body.get("stream") is True,
        max_output=as_count(body.get("max_tokens")) if limit is None else limit,
        output_schema=as_dict(form.get("json_schema")).get("schema"),
        body_session=as_str(body.get("prompt_cache_key")) or None,
    )


def _blocks(body: dict[str, Any]) -> Iterator[Block]:
    for tool in (*as_list(body.get("tools")), *as_list(body.get("functions"))):
        fields = as_dict(tool)
        name = as_str((as_dict(fields.get("function")) or fields).get("name"))
        mark = fields.get("cache_control")
        yield Block("tool_definition", value=tool, name=name, cache_control=mark)
    names: dict[str, str] = {}
    for message in as_list(body.get("messages")):
        if not isinstance(message, dict):
            yield Block("other", value=message)
            continue
        kind = _SPEAKERS.get(as_str(message.get("role")), "other")
        if kind == "tool_result":
            call_id = as_str(message.get("tool_call_id"))
            name = names.get(call_id or "") or as_str(message.get("name"))
            yield from _content(message, kind, call_id, name)
        elif kind == "assistant":
            for block in assistant_blocks(message):
                if block.call_id is not None and block.name is not None:
                    names[block.call_id] = block.name
                yield block
        else:
            yield from _content(message, kind)


def assistant_blocks(message: dict[str, Any]) -> Iterator[Block]:
    """An assistant's message: thinking, then text, then tool calls."""
    thinking = as_str(message.get("reasoning_content")) or as_str(message.get("reasoning"))
    if thinking:
        yield Block("thinking", text=thinking)
    yield from _content(message, "assistant")
    for call in as_list(message.get("tool_calls")):
        yield _call(call) if isinstance(call, dict) else Block("other", value=call)
    if isinstance(message.get("function_call"), dict):
        yield _call({"function": message["function_call"]})


def _call(call: dict[str, Any]) -> Block:
    function = as_dict(call.get("function")) or as_dict(call.get("custom"))
    arguments = function.get("arguments", function.get("input"))
    name, call_id = as_str(function.get("name")), as_str(call.get("id"))
    return Block("tool_call", value=arguments, name=name, call_id=call_id)


def _content(
    message: dict[str, Any], kind: BlockKind, call_id: str | None = None, name: str | None = None
) -> Iterator[Block]:
    content = message.get("content")
    mark = message.get("cache_control")
    if isinstance(content, str):
        yield Block(kind, text=content, call_id=call_id, name=name, cache_control=mark)
        return
    for part in as_list(content):
        yield _part(part, kind, call_id, name)


def _part(part: object, kind: BlockKind, call_id: str | None, name: str | None) -> Block:
    if not isinstance(part, dict):
        return Block("other", value=part, call_id=call_id, name=name)
    mark = part.get("cache_control")
    form = part.get("type")
    text = as_str(part.get("text"))
    if form in _TEXTS and text is not None:
        return Block(kind, text=text, call_id=call_id, name=name, cache_control=mark)
    if form in _MEDIA:
        media = _media(part.get(form), image=form == "image_url")
        return Block("other", media=media, call_id=call_id, name=name, cache_control=mark)
    return Block("other", value=part, call_id=call_id, name=name, cache_control=mark)


def _media(source: object, image: bool) -> Media:
    """A URL (its bytes, where it is a data URL), bytes in base64, or a file's id."""
    fields = as_dict(source)
    data = as_str(fields.get("data")) or as_str(fields.get("file_data"))
    url = as_str(source) or as_str(fields.get("url")) or data or ""
    if url.startswith("data:"):
        head, comma, rest = url.partition(",")
        if comma and head.endswith(";base64"):
            return Media(image, data=rest)
    if data is not None:
        return Media(image, data=data)
    return Media(image, reference=url or as_str(fields.get("file_id")))


@dataclass(slots=True)
class _PartialCall:
    call_id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ChatAnswer:
    """An answer, event by event or as one body. Of several choices the first is kept."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._error: str | None = None
        self._first_ms: float | None = None
        self._message: dict[str, Any] = {}
        self._thinking: list[str] = []
        self._text: list[str] = []
        self._calls: dict[int, _PartialCall] = {}

    def body(self, value: object, at_ms: float) -> None:
        """A whole answer."""
        fields = as_dict(value)
        self._head(fields)
        for choice in dicts(fields.get("choices")):
            if as_count(choice.get("index")) in (0, None):
                self._message = as_dict(choice.get("message"))
                self._stop = as_word(choice.get("finish_reason"))
                self._first_ms = at_ms
                break

    def event(self, name: str, value: object, at_ms: float) -> None:
        """The next event of a stream; its `event` line's name, its data's value."""
        fields = as_dict(value)
        self._head(fields)
        if name == "error" and self._error is None and fields:
            self._error = _error_name(fields)
        for choice in dicts(fields.get("choices")):
            if as_count(choice.get("index")) in (0, None):
                self._stop = as_word(choice.get("finish_reason")) or self._stop
                self._delta(as_dict(choice.get("delta")), at_ms)

    def response(self) -> ModelResponse:
        """What came so far."""
        return ModelResponse(
            model=self._model,
            blocks=tuple(assistant_blocks(self._message or self._joined())),
            usage=self._counts(),
            stop_reason=self._stop,
            error=self._error,
            first_output_ms=self._first_ms,
        )

    def _head(self, fields: dict[str, Any]) -> None:
        self._model = as_model(fields.get("model")) or self._model
        usage = as_dict(fields.get("usage"))
        if usage:
            self._usage = usage  # where it comes with every event, it counts up
        if fields.get("error"):
            self._error = _error_name(fields["error"])

    def _delta(self, delta: dict[str, Any], at_ms: float) -> None:
        thinking = as_str(delta.get("reasoning_content")) or as_str(delta.get("reasoning"))
        text = as_str(delta.get("content"))
        calls = list(dicts(delta.get("tool_calls")))
        if not (thinking or text or calls):
            return
        if self._first_ms is None:
            self._first_ms = at_ms
        if thinking:
            self._thinking.append(thinking)
        if text:
            self._text.append(text)
        for call in calls:
            self._call_delta(call)

    def _call_delta(self, delta: dict[str, Any]) -> None:
        call_id = as_str(delta.get("id")) or None
        index = as_count(delta.get("index"))
        if index is None:
            # Some servers leave the index out: an id begins the next call.
            index = len(self._calls) if call_id else max(len(self._calls) - 1, 0)
        if index not in self._calls and len(self._calls) >= _MAX_CALLS:
            return
        call = self._calls.setdefault(index, _PartialCall())
        call.call_id = call.call_id or call_id
        function = as_dict(delta.get("function")) or as_dict(delta.get("custom"))
        call.name = call.name or as_str(function.get("name")) or ""
        arguments = function.get("arguments", function.get("input"))
        if isinstance(arguments, str):
            call.arguments.append(arguments)

    def _joined(self) -> dict[str, Any]:
        """The message that the deltas add up to."""
        return {
            "reasoning_content": "".join(self._thinking),
            "content": "".join(self._text),
            "tool_calls": [
                {
                    "id": call.call_id,
                    "function": {"name": call.name, "arguments": "".join(call.arguments)},
                }
                for _, call in sorted(self._calls.items())
            ],
        }

    def _counts(self) -> Usage:
        usage = self._usage
        prompt = as_dict(usage.get("prompt_tokens_details"))
        completion = as_dict(usage.get("completion_tokens_details"))
        cached = as_count(prompt.get("cached_tokens"))
        if cached is None:
            cached = as_count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek's name for it
        # A count that came before the end counts only what had come by then.
        output = as_count(usage.get("completion_tokens")) if self._stop else None
        return Usage(
            input=as_count(usage.get("prompt_tokens")),
            cached=cached,
            cache_write=as_count(prompt.get("cache_write_tokens")),
            output=output,
            reasoning=as_count(completion.get("reasoning_tokens")) if self._stop else None,
        )


def _error_name(error: object) -> str:
    """The error's class: its type or code; a number that is an HTTP status as `http_…`."""
    fields = as_dict(error)
    inner = as_dict(fields.get("error")) or fields
    code = as_count(inner.get("code"))
    status = f"http_{code}" if code is not None and 400 <= code < 600 else None
    return as_word(inner.get("type")) or as_word(inner.get("code")) or status or UNNAMED_ERROR
