"""Numbers as people read them; unknown is a dash, never 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentx.report import units


@pytest.mark.parametrize(
    "shown",
    [
        units.whole,
        units.short,
        units.duration,
        units.percent,
        units.tokens,
        units.per_second,
        units.megabytes,
    ],
)
def test_unknown_is_a_dash_and_zero_is_not(shown: Callable[[float | None], str]) -> None:
    assert shown(None) == "–"
    assert shown(0.0).startswith("0")


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0.0004, "4.0e-04 ms"),
        (0.4, "0.400 ms"),
        (12.34, "12.3 ms"),
        (999.4, "999 ms"),
        (1234, "1.23 s"),
        (119_000, "119 s"),
        (600_000, "10.0 min"),
        (36_000_000, "10.0 h"),
    ],
)
def test_times_keep_three_digits_and_change_their_unit(milliseconds: float, shown: str) -> None:
    assert units.duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.5, "50.0 %"),
        (0.9637, "96.4 %"),
        (0.9914, "99.14 %"),
        (0.99999, "100.00 %"),
        (1, "100.0 %"),
    ],
)
def test_shares_show_their_misses(share: float, shown: str) -> None:
    assert units.percent(share) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(950, "950"), (12_300, "12.3 k"), (4_560_000, "4.56 M"), (3e9, "3.00 B")]
)
def test_tokens(count: float, shown: str) -> None:
    assert units.tokens(count) == shown


def test_a_flag_that_is_neither_is_unknown() -> None:
    assert [units.yes_no(value) for value in (True, False, None, 1, "yes")] == [
        "yes",
        "no",
        "unknown",
        "unknown",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 lanes"), (1, "1 lane"), (1234, "1,234 lanes")]
)
def test_one_of_a_thing_is_no_plural(number: int, words: str) -> None:
    assert units.counted(number, "lane") == words
