"""Tokens found, lost and new add up to what was sent; unknown is left out, not counted as 0."""

from __future__ import annotations

import numpy as np
import pytest

from agentx.report.charts.cache import (
    cache_tokens,
    hit_rate_over_time,
    theoretical_against_achieved,
    where_tokens_went,
)
from tests.report import synthetic


def test_found_lost_and_new_are_all_of_the_prompts() -> None:
    made = synthetic.run()
    sums = cache_tokens(made.view().rows)
    assert sums is not None
    assert sums.requests == len(made.requests)
    assert sums.reported == sum(row["cached_tokens"] for row in made.requests)
    assert sums.reported + sums.lost + sums.new == pytest.approx(sums.server_prompt)
    assert sums.lost > 0
    bars = synthetic.traces(where_tokens_went(made.view().rows))
    assert sum(bar.x[0] for bar in bars) == pytest.approx(sums.server_prompt)


def test_theoretical_hits_are_taken_into_the_servers_tokens() -> None:
    made = synthetic.run()
    for row in made.requests:
        row["prompt_tokens"] *= 2
        row["cached_tokens"] *= 2
    once, twice = cache_tokens(synthetic.run().view().rows), cache_tokens(made.view().rows)
    assert once is not None
    assert twice is not None
    assert twice.lost == pytest.approx(2 * once.lost)


def test_a_server_that_finds_more_than_the_trace_says_has_lost_nothing() -> None:
    made = synthetic.run()
    for row in made.requests:
        row["cached_tokens"] = row["theoretical_tokens"] + 15 if row["theoretical_tokens"] else 0
    sums = cache_tokens(made.view().rows)
    assert sums is not None
    assert sums.lost == 0
    assert sums.reported + sums.new == pytest.approx(sums.server_prompt)


def test_requests_without_both_counts_are_left_out() -> None:
    made = synthetic.run()
    made.requests[0]["cached_tokens"] = None
    made.requests[1]["theoretical_tokens"] = None
    synthetic.fail(made.requests[2], "timeout", "")
    rows = made.view().rows
    sums = cache_tokens(rows)
    assert sums is not None
    assert sums.requests == len(made.requests) - 3
    dots = synthetic.traces(theoretical_against_achieved(rows))[1]
    assert len(dots.x) == len(made.requests) - 3


def test_a_server_that_reports_nothing_has_no_chart_and_a_reason() -> None:
    made = synthetic.run()
    for row in made.requests:
        row["cached_tokens"] = None
    rows = made.view().rows
    for chart in (where_tokens_went(rows), theoretical_against_achieved(rows)):
        assert chart.figure is None
        assert "cached tokens" in chart.summary
    over_time = hit_rate_over_time(rows)
    assert [trace.name for trace in synthetic.traces(over_time)] == ["theoretical"]
    assert "reported unknown" in over_time.summary


def test_hit_rates_over_time_are_weighted_by_tokens() -> None:
    made = synthetic.run(sessions=1, turns=2, lanes=1)
    first, second = made.requests
    first |= {"sent_ms": 100.0, "prompt_tokens": 900, "cached_tokens": 0}
    second |= {"sent_ms": 110.0, "prompt_tokens": 100, "cached_tokens": 100}
    reported = synthetic.traces(hit_rate_over_time(made.view().rows))[1]
    values = [value for value in reported.y if value is not None]
    assert values == [pytest.approx(0.1)]


def test_a_piece_of_time_without_requests_is_a_gap_and_no_zero() -> None:
    made = synthetic.run(sessions=1, turns=20, lanes=1)
    for number, row in enumerate(made.requests):
        row["sent_ms"] = 0.0 if number < 10 else 9_900.0
    trace = synthetic.traces(hit_rate_over_time(made.view().rows))[0]
    assert trace.y[0] is not None
    assert trace.y[-1] is not None
    assert None in trace.y
    assert trace.connectgaps is False


def test_requests_that_lost_more_than_rounding_are_counted() -> None:
    made = synthetic.run()
    for row in made.requests:
        row["cached_tokens"] = max(row["theoretical_tokens"] - 15, 0)
    made.requests[-1]["cached_tokens"] = 16
    chart = theoretical_against_achieved(made.view().rows)
    assert f"{len(made.requests)} requests; 1 of them found" in chart.summary
    assert np.isfinite(synthetic.traces(chart)[1].x).all()
