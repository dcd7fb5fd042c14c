"""What is asked for, and what is refused: never anything but an `ApiError`."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.engine.api import MAX_OUTPUT_TOKENS, ApiError, Ask, parse_completion
from agentx.engine.prompts import PromptReader

USER = [{"role": "user", "content": "one two  three\n"}]


def chat(**fields: Any) -> Ask:
    return parse(json.dumps({"messages": USER} | fields).encode(), chat=True)


def parse(body: bytes, *, chat: bool) -> Ask:
    return parse_completion(body, chat=chat, reader=PromptReader(), model="served")


def prompt_tokens(prompt: object) -> int:
    return parse(json.dumps({"prompt": prompt}).encode(), chat=False).prompt.tokens


def test_defaults() -> None:
    ask = chat()
    assert ask.prompt.tokens == 3
    assert (ask.model, ask.stream, ask.include_usage) == ("served", False, False)
    assert (ask.max_tokens, ask.min_tokens, ask.ignore_eos) == (None, 0, False)


def test_everything_that_counts() -> None:
    ask = chat(
        model="mine",
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=7,
        min_tokens=3,
        ignore_eos=True,
        n=1,
    )
    assert (ask.model, ask.stream, ask.include_usage) == ("mine", True, True)
    assert (ask.max_tokens, ask.min_tokens, ask.ignore_eos) == (7, 3, True)


def test_the_newer_limit_wins_in_chat() -> None:
    assert chat(max_tokens=7, max_completion_tokens=5).max_tokens == 5
    assert chat(max_completion_tokens=5).max_tokens == 5


def test_null_is_as_if_absent() -> None:
    names = ("model", "stream", "stream_options", "max_tokens", "min_tokens", "ignore_eos", "n")
    assert chat(**dict.fromkeys(names)).max_tokens is None


@pytest.mark.parametrize(
    ("messages", "tokens"),
    [
        ([{"role": "system", "content": "a b"}, {"role": "user", "content": "c"}], 3),
        ([{"role": "user", "content": [{"type": "text", "text": "a b"}, "c"]}], 3),
        (
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
                {"role": "tool", "tool_call_id": "x", "content": "b c"},
            ],
            3,
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:x y"}},
                        {"type": "text", "text": "a"},
                    ],
                }
            ],
            1,
        ),
        ([{"role": "user"}, {"role": "user", "content": "a\u00a0b\u2003c"}], 3),
    ],
)
def test_the_text_of_messages_counts(messages: list[Any], tokens: int) -> None:
    assert chat(messages=messages).prompt.tokens == tokens


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("a b", 2), (["a b c"], 3), ([1, 2, 3], 3), ([[1, 2]], 2), ([0, 2**32 - 1], 2), ([5], 1)],
)
def test_prompts(prompt: object, tokens: int) -> None:
    assert prompt_tokens(prompt) == tokens


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        "",
        "  \n",
        [],
        [""],
        ["a", "b"],
        [[1], [2]],
        [1, "a"],
        [True],
        [1.0],
        [-1],
        [2**32],
        [10**30],
        {},
        5,
        [None],
        [{}],
    ],
)
def test_prompts_that_are_none(prompt: object) -> None:
    with pytest.raises(ApiError) as error:
        prompt_tokens(prompt)
    assert (error.value.status, error.value.param) in {(400, "prompt"), (400, None)}


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        {},
        "hello",
        ["hello"],
        [{"content": "a"}],
        [{"role": 1, "content": "a"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": {}}],
        [{"role": "user", "content": [1]}],
        [{"role": "user", "content": [{"text": "a"}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        [{"role": "user", "content": ""}],
    ],
)
def test_messages_that_are_none(messages: object) -> None:
    with pytest.raises(ApiError) as error:
        chat(messages=messages)
    assert error.value.status == 400


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "min_tokens"])
@pytest.mark.parametrize("value", [-1, 1.0, "5", True, [], MAX_OUTPUT_TOKENS + 1, 10**18])
def test_limits_that_are_none(name: str, value: object) -> None:
    with pytest.raises(ApiError) as error:
        chat(**{name: value})
    assert error.value.param == name
    assert name in error.value.message


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0},
        {"max_tokens": 3, "min_tokens": 4},
        {"n": 2},
        {"n": 0},
        {"n": "1"},
        {"best_of": 3},
        {"stream": 1},
        {"stream": "true"},
        {"ignore_eos": 0},
        {"stream_options": True},
        {"stream_options": {"include_usage": "yes"}},
        {"model": 1},
        {"model": "x" * 257},
    ],
)
def test_fields_that_are_wrong(fields: dict[str, object]) -> None:
    with pytest.raises(ApiError) as error:
        chat(**fields)
    assert next(reversed(fields)) in error.value.message or "include_usage" in error.value.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"a"', b"[" * 10_000])
def test_bodies_that_are_no_object(body: bytes) -> None:
    for is_chat in (True, False):
        with pytest.raises(ApiError):
            parse(body, chat=is_chat)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = (
    "messages",
    "prompt",
    "model",
    "n",
    "stream",
    "stream_options",
    "max_tokens",
    "ignore_eos",
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.booleans(), st.lists(JSON, max_size=3))
def test_any_json_is_understood_or_refused(
    document: dict[str, Any], is_chat: bool, contents: list[Any]
) -> None:
    document.setdefault("messages", [{"role": "user", "content": item} for item in contents])
    with contextlib.suppress(ApiError):
        ask = parse(json.dumps(document).encode(), chat=is_chat)
        assert ask.prompt.tokens > 0


def test_an_error_has_the_shape_of_openai() -> None:
    error = ApiError("What is wrong.", param="n", code="c")
    assert orjson.loads(error.body()) == {
        "error": {
            "message": "What is wrong.",
            "type": "invalid_request_error",
            "param": "n",
            "code": "c",
        }
    }
