"""Requests of the OpenAI-compatible API: bytes in, a checked `Ask` or an `ApiError` out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from agentx.engine.prompts import Prompt, PromptReader

MAX_OUTPUT_TOKENS = 1_000_000
"""The most that one request may ask for."""
MAX_MODEL_NAME = 256
_MAX_ID = 2**32 - 1


class ApiError(Exception):
    """A request that is refused, with its HTTP status and OpenAI's error code."""

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status

    def body(self) -> bytes:
        """The error as OpenAI's JSON document."""
        error = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }
        return orjson.dumps({"error": error})


@dataclass(frozen=True, slots=True)
class Ask:
    """What a completion request asks for."""

    prompt: Prompt
    chat: bool
    model: str
    """As the client called it."""
    stream: bool
    include_usage: bool
    max_tokens: int | None
    """None: no limit was named."""
    min_tokens: int
    ignore_eos: bool


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; ApiError where it is none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(document, dict):
        raise ApiError("The body must be a JSON object.")
    return document


def parse_completion(body: bytes, *, chat: bool, reader: PromptReader, model: str) -> Ask:
    """A checked chat (`messages`) or text completion (`prompt`) request.

    `model` stands in where the request names none. Sampling parameters, stop words, tools and
    whatever else is not mentioned in `Ask` are accepted and ignored.
    """
    document = parse_object(body)
    for one in ("n", "best_of"):
        if document.get(one) not in (None, 1):
            raise ApiError(f"'{one}' must be 1: one answer a request.", param=one)
    name = document.get("model")
    if name is not None and (not isinstance(name, str) or len(name) > MAX_MODEL_NAME):
        raise ApiError(
            f"'model' must be a string of at most {MAX_MODEL_NAME} characters.", param="model"
        )
    stream = _flag(document, "stream")
    options = document.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise ApiError("'stream_options' must be an object.", param="stream_options")
    max_tokens = _integer(document, "max_tokens", 1, MAX_OUTPUT_TOKENS)
    if chat:
        newer = _integer(document, "max_completion_tokens", 1, MAX_OUTPUT_TOKENS)
        max_tokens = max_tokens if newer is None else newer
    min_tokens = _integer(document, "min_tokens", 0, MAX_OUTPUT_TOKENS) or 0
    if max_tokens is not None and min_tokens > max_tokens:
        raise ApiError(
            f"'min_tokens' ({min_tokens}) is more than 'max_tokens' ({max_tokens}).",
            param="min_tokens",
        )
    return Ask(
        prompt=_prompt(document, chat=chat, reader=reader),
        chat=chat,
        model=name or model,
        stream=stream,
        include_usage=_flag(options or {}, "include_usage"),
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        ignore_eos=_flag(document, "ignore_eos"),
    )


def parse_texts(document: dict[str, Any]) -> list[str]:
    """The texts of a request to count tokens: of its `messages`, or its `prompt`, a string."""
    if "messages" in document:
        return list(_message_texts(document))
    prompt = document.get("prompt")
    if not isinstance(prompt, str):
        raise ApiError("Give 'messages', or a 'prompt' that is a string.", param="prompt")
    return [prompt]


def _prompt(document: dict[str, Any], *, chat: bool, reader: PromptReader) -> Prompt:
    if chat:
        prompt = reader.of_texts(_message_texts(document))
    else:
        single = _single_prompt(document.get("prompt"))
        prompt = reader.of_texts([single]) if isinstance(single, str) else _of_ids(single, reader)
    if not prompt.tokens:
        raise ApiError(
            "The prompt is empty: it holds no word, and here a word is a token.",
            param="messages" if chat else "prompt",
        )
    return prompt


def _message_texts(document: dict[str, Any]) -> Iterator[str]:
    """The texts of all messages in order: string contents, and text parts of lists."""
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError("'messages' must be a list of at least one message.", param="messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError(f"'{where}' must be an object with a 'role'.", param=where)
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from _part_texts(content, f"{where}.content")
        elif content is not None:
            raise ApiError(f"'{where}.content' must be a string, a list or null.", param=where)


def _part_texts(parts: list[Any], where: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise ApiError(f"'{where}' must hold parts with a 'type'.", param=where)
        text = part.get("text")
        if isinstance(text, str):
            yield text
        elif text is not None or part["type"] == "text":
            raise ApiError(f"The 'text' of a part of '{where}' must be a string.", param=where)


def _single_prompt(prompt: object) -> str | list[Any]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list):
        raise ApiError("'prompt' must be a string or a list of token ids.", param="prompt")
    if len(prompt) > 1 and isinstance(prompt[0], str | list):
        raise ApiError("'prompt' must be a single prompt: one a request.", param="prompt")
    return prompt


def _of_ids(ids: list[Any], reader: PromptReader) -> Prompt:
    # JSON's true is an int in Python, so that the exact types are looked at.
    if set(map(type, ids)) <= {int}:
        try:
            return reader.of_ids(ids)
        except OverflowError:
            pass
    raise ApiError(
        f"'prompt' must be a string or a list of token ids from 0 to {_MAX_ID}.", param="prompt"
    )


def _integer(document: dict[str, Any], name: str, lowest: int, highest: int) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if type(value) is not int or not lowest <= value <= highest:
        raise ApiError(f"'{name}' must be an integer from {lowest} to {highest}.", param=name)
    return value


def _flag(document: dict[str, Any], name: str) -> bool:
    value = document.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(f"'{name}' must be true or false.", param=name)
    return bool(value)
