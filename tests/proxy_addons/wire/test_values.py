"""JSON from outside, mended where that is possible."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.wire.values import as_count, as_name, parse_json
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


def test_names_are_no_prose() -> None:
    assert as_name("anthropic/claude-opus-4.8:1m") == "anthropic/claude-opus-4.8:1m"
    assert as_name("your key sk-1 is wrong") is None
    assert as_name(7) is None
