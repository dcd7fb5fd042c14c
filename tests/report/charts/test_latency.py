"""Latency curves over the answered requests, with the run's own percentiles on them."""

from __future__ import annotations

from agentx.report.charts.latency import latency_charts, ttft_against_uncached
from agentx.report.numbers import marks
from tests.report import synthetic


def test_the_dots_are_the_runs_percentiles() -> None:
    run = synthetic.run().view()
    for chart, key in zip(
        latency_charts(run.rows, run.gaps, marks(run)), ("ttft", "tpot", "itl", "e2e"), strict=True
    ):
        assert chart.key == key
        dots = synthetic.traces(chart)[-1]
        stated = [run.aggregate[f"{key}_ms"][name] for name in ("p50", "p90", "p99")]
        assert [round(x / value, 3) for x, value in zip(dots.x, stated, strict=True)] == [1, 1, 1]
        assert list(dots.y) == [0.5, 0.9, 0.99]


def test_failed_requests_are_in_no_curve() -> None:
    made = synthetic.run()
    made.requests[0]["error"] = "broken"
    run = made.view()
    chart = latency_charts(run.rows, run.gaps, {})[0]
    assert chart.summary.startswith(f"{len(made.requests) - 1} requests")


def test_the_engines_own_times_are_a_second_line() -> None:
    made = synthetic.run()
    for row in made.requests:
        row["engine_ttft_ms"] = row["ttft_ms"] - 5
        row["engine_tpot_ms"] = 9.5
    run = made.view()
    ttft, tpot, _, e2e = latency_charts(run.rows, run.gaps, {})
    assert [key.label for key in ttft.legend] == [
        "measured by the client",
        "by the engine's own clock",
    ]
    assert tpot.legend == ttft.legend
    assert set(synthetic.traces(tpot)[1].x) == {9.5}
    dots = ttft_against_uncached(run.rows)
    assert dots.title.endswith("by the engine's own clock")
    assert max(synthetic.traces(dots)[0].y) < max(row["ttft_ms"] for row in made.requests)
    assert e2e.legend == ()


def test_with_nothing_measured_a_chart_says_so() -> None:
    made = synthetic.run(1, 3, 1)
    for row in made.requests:
        synthetic.fail(row, "connect", "refused")
    run = made.view()
    charts = (*latency_charts(run.rows, run.gaps, {}), ttft_against_uncached(run.rows))
    assert all(chart.figure is None for chart in charts)
    assert charts[0].summary == "No value was measured."


def test_nothing_cached_is_drawn_and_unknown_is_not() -> None:
    made = synthetic.run(1, 4, 1)
    made.requests[1]["cached_tokens"] = made.requests[1]["prompt_tokens"]
    made.requests[2]["cached_tokens"] = None
    dots = synthetic.traces(ttft_against_uncached(made.view().rows))[0]
    assert len(dots.x) == 3
    assert 1 in dots.x


def test_a_large_run_is_thinned_and_says_so() -> None:
    made = synthetic.run(60, 50, 4)
    chart = ttft_against_uncached(made.view().rows)
    assert len(synthetic.traces(chart)[0].x) == 2500
    assert "2,500 of them are drawn" in chart.summary
