"""Curves keep the exact quantiles, gaps come out of lists, thinning keeps what stands out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.report.distribution import curve, gaps_curve, nice_width, thin


def test_a_curve_is_exact_where_it_is_drawn() -> None:
    values = np.random.default_rng(0).lognormal(5, 2, 10_000)
    found = curve(np.append(values, np.nan))
    assert found is not None
    assert found.values == 10_000
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        assert np.interp(share, found.share, found.at) == pytest.approx(
            np.quantile(values, share), rel=1e-6
        )


def test_nothing_known_is_no_curve() -> None:
    assert curve(np.array([np.nan])) is None
    assert gaps_curve([]) is None
    assert gaps_curve([pa.array([[], [7.0], None], pa.list_(pa.float64()))]) is None


def test_gaps_are_within_an_answer_and_never_between_two() -> None:
    lists = pa.array([[1.0, 2.0, 4.0], [100.0], None, [5.0, 9.0]], pa.list_(pa.float64()))
    found = gaps_curve([lists])
    assert found is not None
    assert found.values == 3
    assert found.at[-1] == pytest.approx(4, rel=0.03)
    assert np.interp(2 / 3, found.share, found.at) == pytest.approx(2, rel=0.03)


def test_gaps_of_a_fast_clock_are_scaled() -> None:
    found = gaps_curve([pa.array([[0.0, 3.0]])], time_scale=10)
    assert found is not None
    assert found.at[-1] == pytest.approx(30, rel=0.03)


def test_a_slice_of_a_list_column_counts_only_its_own() -> None:
    lists = pa.array([[0.0, 1000.0], [0.0, 1.0]], pa.list_(pa.float64())).slice(1)
    found = gaps_curve([lists])
    assert found is not None
    assert found.values == 1
    assert found.at[-1] == pytest.approx(1, rel=0.03)


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=30), max_size=20))
def test_every_gap_is_counted_once(answers: list[list[float]]) -> None:
    answers = [sorted(times) for times in answers]
    found = gaps_curve([pa.array(answers, pa.list_(pa.float64()))])
    assert (found.values if found else 0) == sum(max(len(times) - 1, 0) for times in answers)


@given(st.integers(0, 3000), st.integers(20, 500))
def test_thinning_keeps_the_order_and_the_highest(size: int, limit: int) -> None:
    heights = np.random.default_rng(size).normal(size=size)
    places = thin(heights, limit)
    assert len(places) == min(size, limit)
    assert (np.diff(places) > 0).all()
    if size:
        assert int(np.argmax(heights)) in places


@given(st.floats(1e-3, 1e9), st.integers(1, 200))
def test_a_nice_width_cuts_into_at_most_so_many(span: float, bins: int) -> None:
    width = nice_width(span, bins)
    assert span / width <= bins * (1 + 1e-6)
    assert span / width > bins / 2.6
