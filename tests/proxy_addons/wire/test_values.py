"""JSON from outside, mended where that is possible."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.wire.values import (
    as_count,
    as_model,
    as_tool_name,
    as_word,
    parse_json,
)
from tests.captured import unhurried

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@unhurried
@given(values)
def test_json_is_read_as_it_is(value: object) -> None:
    assert parse_json(orjson.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\ude00b"', "\ufffdb"),
        (rb'"\ud83d\ude00\ud83d"', "\U0001f600\ufffd"),
        (rb'"\\ud83d\ud83d"', "\\ud83d\ufffd"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (b'"\xed\xa0\xbd"', "\ufffd"),
        (b'"\xff"', "\ufffd"),
        (b"\xef\xbb\xbf[1]", [1]),
    ],
)
def test_lone_surrogates_and_bad_bytes_count_as_the_replacement_character(
    text: bytes, value: object
) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"[1,]", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize(
    ("value", "count"), [(0, 0), (3.0, 3), (True, None), (-1, None), (1.5, None), ("3", None)]
)
def test_counts(value: object, count: int | None) -> None:
    assert as_count(value) == count


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5.2",
        "meta-llama/Llama-3.1-8B",
        "01-ai/Yi-34B",
        "anthropic/claude-opus-4.8:1m",
        "qwen3:8b@q4",
        "claude-3-5-sonnet@20240620",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
    ],
)
def test_a_models_name_is_kept(name: str) -> None:
    assert as_model(name) == name


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("/home/alice.smith/models/Secret-7B.gguf", "Secret-7B.gguf"),
        ("/home/alice.smith/", None),
        ("/alice.smith", None),
        ("C:\\Users\\alice\\m-7b.gguf", "m-7b.gguf"),
        ("c:/m-7b", "m-7b"),
        ("~/m-7b", "m-7b"),
        ("../m-7b", "m-7b"),
        ("alice/m-7b.safetensors", "m-7b.safetensors"),
        ("http://10.0.0.1:8000/m-7b", "m-7b"),
        ("localhost:8000/m-7b", "m-7b"),
        ("box.corp.example/m-7b", "m-7b"),
        ("accounts/acme/models/llama-3", "llama-3"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.claude-4", "us.claude-4"),
        ("arn:aws:bedrock:us-east-1:123456789012:x1", None),
        ("ft:gpt-4o-mini-2024-07-18:acme:alices:9abc", "ft:gpt-4o-mini-2024-07-18"),
        ("10.0.0.1:8080", None),
        ("a@b.c", None),
        ("alice@laptop", None),
        ("x/alice@corp.example", None),
        ("the model of Bob", None),
        ("", None),
        ("/", None),
        ("m" * 500, None),
        (7, None),
    ],
)
def test_of_a_path_or_an_address_at_most_its_harmless_last_part_is_kept(
    sent: object, kept: str | None
) -> None:
    assert as_model(sent) == kept


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("mcp__demo__weather_now", True),
        ("files.read", True),
        ("github/create_issue", True),
        ("/home/alice/bin/tool.sh", False),
        ("~/tool", False),
        ("C:\\tool", False),
        ("a/b/c", False),
        ("box.corp.example/tool.sh", False),
        ("a@b.c", False),
        ("10.0.0.1", False),
        ("call Bob", False),
        (None, False),
    ],
)
def test_tool_names_hold_no_paths_and_no_addresses(name: object, holds: bool) -> None:
    assert (as_tool_name(name) == name) is (holds or name is None)


@pytest.mark.parametrize(
    "value",
    ["your key sk-1 is wrong", "a@b.c", "/home/alice", "box.corp.example", "10.0.0.1", "", 429],
)
def test_words_are_one_identifier(value: object) -> None:
    assert as_word("invalid_request_error") == "invalid_request_error"
    assert as_word(value) is None


@unhurried
@given(st.text(alphabet="ab1./:@~\\-_ ", max_size=30))
def test_no_name_keeps_a_path_or_a_mail_address(text: str) -> None:
    for name in (as_model(text), as_tool_name(text), as_word(text)):
        if name is not None:
            assert name.count("/") <= 1
            assert not name.startswith(("/", "~", "."))
            assert re.search(r"@[a-z-]+\.|[\\ ~]", name) is None
