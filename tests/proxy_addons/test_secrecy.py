from __future__ import annotations

import base64
from string import ascii_letters, digits

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.providers import PROTOCOL_WORDS
from agentx.proxy_addons.redact import mask, secrets_of
from agentx.proxy_addons.secrecy import LONG, is_secret
from tests.proxy_addons.spools import unhurried

BODY = orjson.dumps(
    {
        "model": "gpt-4o-mini",
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1"},
            {"type": "text", "text": "Use lm-studio, not ollama; no key is required."},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "password1 on 2024-08-06"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "input": {"a": "b"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
        ],
        "tools": [{"name": "x", "input_schema": {"additionalProperties": False}}],
        "cache_control": {"type": "ephemeral", "cache_read_input_tokens": 1},
    }
)
"""Of every word in here somebody may have made a key for a server of their own."""

words = st.sampled_from(
    (
        *("anthropic", "assistant", "tool_use", "tool_result", "ephemeral", "messages", "content"),
        *("input_schema", "additionalProperties", "cache_read_input_tokens", "gpt-4o", "2024"),
        *("x-anthropic-billing-header", "lm-studio", "ollama", "openai", "password1", "dummy"),
        *("not-needed", "no", "key", "required", "test", "Test", "KEY", "LocalKey", "EMPTY"),
    )
)
places = st.sampled_from(
    [
        ("x-api-key", "{}"),
        ("api-key", "{}"),
        ("Authorization", "Bearer {}"),
        ("Authorization", "{}"),
        ("Cookie", "a={}; b=c"),
    ]
)
"""A header, and what stands around a key in it."""


def secrets_in(place: tuple[str, str], key: str) -> tuple[bytes, ...]:
    return secrets_of(((place[0], place[1].format(key)),), "/v1/messages")


@unhurried
@given(places, words, st.sampled_from(["", "-", "_", " "]), words | st.just(""))
def test_words_for_keys_change_no_body(
    place: tuple[str, str], word: str, separator: str, other: str
) -> None:
    key = word + separator + other
    if len(key) < LONG:
        assert mask(BODY, secrets_in(place, key)) == BODY


@unhurried
@given(places, st.sampled_from(PROTOCOL_WORDS))
def test_a_word_of_the_bodies_own_structure_is_never_masked(
    place: tuple[str, str], word: str
) -> None:
    assert is_secret(f"{word}!")
    assert mask(BODY, secrets_in(place, word)) == BODY


random = st.binary(min_size=16, max_size=64)
real_keys = st.one_of(
    st.builds("sk-{}".format, st.text(ascii_letters + digits, min_size=20, max_size=60)),
    random.map(bytes.hex),
    random.map(lambda data: base64.b64encode(data).decode()),
    random.map(lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")),
    st.uuids().map(str),
    st.builds(
        "eyJhbGciOiJIUzI1NiJ9.{}.{}".format,
        st.text(ascii_letters, min_size=4),
        st.text(ascii_letters, min_size=4),
    ),
    st.lists(st.sampled_from(["correct", "horse", "battery", "staple"]), min_size=4).map("-".join),
)


@unhurried
@given(places, real_keys)
def test_a_real_key_is_masked(place: tuple[str, str], key: str) -> None:
    found = secrets_in(place, key)
    body = orjson.dumps({"text": f"export KEY={key}\n"})
    assert key.encode() not in mask(body, found)
    assert orjson.loads(mask(body, found)) == {"text": f"export KEY={'*' * len(key)}\n"}


@pytest.mark.parametrize(
    "key",
    ["k3yV4lu3", "3f9a1c7e", "x7Kp9qLm", "Tr0ub4d&3", "sk-1a2b3c4d", "123456789", "aGVsbG9Xb3"],
)
def test_short_keys_that_are_no_words_are_masked(key: str) -> None:
    assert is_secret(key)
