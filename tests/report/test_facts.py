"""A run's own words are read for what they are, bounded and visible."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.report.facts import MAX_FACTS, MAX_TEXT, at, count, flat, number, text, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=40,
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, 3.0),
        (0, 0.0),
        (2.5, 2.5),
        (True, None),
        ("3", None),
        (None, None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
        ([1], None),
    ],
)
def test_only_a_finite_number_is_a_number(value: object, found: float | None) -> None:
    assert number({"a": {"b": value}}, "a", "b") == found


def test_a_path_that_leads_nowhere_is_unknown() -> None:
    assert at({"a": [1]}, "a", "b") is None
    assert number("no object", "a") is None
    assert text({"a": ""}, "a") is None


@pytest.mark.parametrize("value", [-1, 1.5, "2"])
def test_a_count_is_whole_and_not_negative(value: object) -> None:
    assert count({"n": value}, "n") is None


@given(st.text(max_size=MAX_TEXT * 2))
def test_what_is_shown_is_short_on_one_line_and_hides_nothing(given_text: str) -> None:
    shown = visible(given_text)
    assert len(shown) <= MAX_TEXT
    assert not any(unicodedata.category(character).startswith("C") for character in shown)
    assert "\n" not in shown


def test_a_direction_override_is_shown_as_a_hole() -> None:
    assert visible("a\u202eb\x00c\nd") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c d"


@given(JSON)
def test_any_document_becomes_bounded_lines(document: Any) -> None:
    lines = flat(document, limit=20)
    assert len(lines) <= 21
    assert all(len(key) <= MAX_TEXT and len(value) <= MAX_TEXT for key, value in lines)


def test_nested_objects_become_dotted_keys_and_null_a_dash() -> None:
    document = {"probe": {"counting": {"slope": 1.0}, "words": [1, 2]}, "limit": None, "on": True}
    assert flat(document) == [
        ("probe.counting.slope", "1"),
        ("probe.words", "1, 2"),
        ("limit", "–"),
        ("on", "yes"),
    ]


def test_the_lines_end_with_a_word_where_there_are_more() -> None:
    lines = flat({str(n): n for n in range(MAX_FACTS + 5)})
    assert len(lines) == MAX_FACTS + 1
    assert lines[-1] == ("…", "more in run.json")
