"""Runs beside each other: each by one clock that is named, and as many as are said."""

from __future__ import annotations

import numpy as np
import pytest

from agentx.report.charts.comparison import MAX_RUNS, Clock, Waits, ttft_curves
from agentx.report.page import render
from agentx.report.view import RunView
from tests.report import synthetic

TIMES = np.array([10.0, 20.0, 400.0])
NONE = np.array([np.nan, np.nan])


@pytest.mark.parametrize(
    ("clock", "title"),
    [
        ("client", "TTFT by run"),
        ("engine", "TTFT by run, by the engine's own clock"),
        ("scaled", "TTFT by run, by the client's clock, scaled"),
    ],
)
def test_one_clock_is_named_once(clock: Clock, title: str) -> None:
    chart = ttft_curves([Waits("a", TIMES, clock), Waits("b", TIMES, clock)])
    assert chart.title == title
    assert [key.label for key in chart.legend] == ["a", "b"]


def test_several_clocks_are_named_run_by_run() -> None:
    clocks: tuple[Clock, ...] = ("client", "engine", "scaled")
    chart = ttft_curves([Waits(clock, TIMES, clock) for clock in clocks])
    assert chart.title == "TTFT by run"
    assert [key.label for key in chart.legend] == [
        "client, by the client's clock",
        "engine, by the engine's own clock",
        "scaled, by the client's clock, scaled",
    ]
    assert "Not all runs are by the same clock" in chart.caption


@pytest.mark.parametrize("empty", [0, 1, 3])
@pytest.mark.parametrize("full", [0, 1, MAX_RUNS, MAX_RUNS + 1])
def test_as_many_are_drawn_as_are_said(empty: int, full: int) -> None:
    runs = [Waits(f"empty-{n}", NONE, "client") for n in range(empty)]
    runs += [Waits(f"run-{n}", TIMES, "client") for n in range(full)]
    chart = ttft_curves(runs)
    if not full:
        assert chart.figure is None
        assert chart.summary == "No run has a TTFT."
        return
    drawn = min(full, MAX_RUNS)
    assert [trace.name for trace in synthetic.traces(chart)] == [f"run-{n}" for n in range(drawn)]
    assert len({key.colour for key in chart.legend}) == len(chart.legend) == drawn
    assert (f"The first {drawn} of {full} runs are drawn" in chart.summary) == (full > drawn)
    assert (f"{empty} of the {len(runs)} runs have no TTFT" in chart.summary) == (empty > 0)


def scaled_run(name: str, *, tells: bool) -> RunView:
    made = synthetic.run()
    made.head["scaled"] = 10.0
    for row in made.requests:
        row["engine_ttft_ms"] = 7.0 if tells else None
    return made.view(name)


def test_a_scaled_run_is_compared_by_its_engines_clock_whatever_stands_beside_it() -> None:
    real = synthetic.run()
    for row in real.requests:
        row["engine_ttft_ms"] = 3.0
    views = [real.view("real"), scaled_run("told", tells=True), scaled_run("mute", tells=False)]
    page = render(views)
    assert "real, by the client&#39;s clock<" in page
    assert "told, by the engine&#39;s own clock<" in page
    assert "mute, by the client&#39;s clock, scaled<" in page
