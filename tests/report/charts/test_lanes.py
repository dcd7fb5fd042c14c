"""Bars never hide one another, and a large run becomes a map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.report.charts import lanes
from agentx.report.charts.lanes import lanes_chart, stack
from tests.report import synthetic

INTERVALS = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0, 100), st.floats(0, 20)), min_size=1, max_size=60
)


@given(INTERVALS)
def test_what_overlaps_in_time_never_shares_a_line(
    intervals: list[tuple[int, float, float]],
) -> None:
    intervals.sort(key=lambda interval: interval[1])
    lane = np.array([interval[0] for interval in intervals], dtype=np.float64)
    start = np.array([interval[1] for interval in intervals])
    end = start + np.array([interval[2] for interval in intervals])
    tracks = stack(lane, start, end)
    for line in range(tracks.lines):
        on = np.flatnonzero(tracks.line == line)
        assert len(on)
        assert len(set(lane[on])) == 1
        assert (start[on][1:] >= end[on][:-1]).all()


@given(INTERVALS)
def test_a_lanes_lines_stand_together_in_its_order(
    intervals: list[tuple[int, float, float]],
) -> None:
    intervals.sort(key=lambda interval: interval[1])
    lane = np.array([interval[0] for interval in intervals], dtype=np.float64)
    start = np.array([interval[1] for interval in intervals])
    tracks = stack(lane, start, start + 1)
    by_line = [lane[tracks.line == line][0] for line in range(tracks.lines)]
    assert by_line == sorted(by_line)
    assert all(by_line[first] == number for number, first in tracks.lane_first.items())


def test_each_request_is_a_bar_in_the_colour_of_its_hit_rate_and_failures_are_marked() -> None:
    made = synthetic.run(sessions=2, turns=10, lanes=2)
    made.requests[3]["cached_tokens"] = None
    synthetic.fail(made.requests[5], "timeout", "no byte in 600 s")
    chart = lanes_chart(made.view().rows)
    bars = {trace.name: len(trace.y) for trace in synthetic.traces(chart) if trace.type == "bar"}
    assert sum(bars.values()) == 20
    assert bars["failed"] == 1
    assert bars["the server did not say"] == 1
    assert [key.label for key in chart.legend] == list(bars)
    crosses = synthetic.traces(chart)[-1]
    assert len(crosses.x) == 1
    assert "timeout" in crosses.text[0]
    assert "2 lanes, 20 requests, 1 of them failed" in chart.summary


def test_a_large_run_is_drawn_as_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_BARS", 50)
    made = synthetic.run(sessions=6, turns=10, lanes=3)
    synthetic.fail(made.requests[5], "timeout", "no byte in 600 s")
    rows = made.view().rows
    chart = lanes_chart(rows)
    heat, crosses = synthetic.traces(chart)
    assert heat.type == "heatmap"
    assert len(heat.z) == 3
    assert len(crosses.x) == 1
    # All prompt tokens of a cell count: the whole map's weighted mean would be the run's rate.
    known = [value for line in heat.z for value in line if value is not None]
    assert 0 <= min(known) <= max(known) <= 1
    assert "Too many for bars" in chart.summary


def test_more_lanes_than_a_map_has_room_for_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAX_BARS", 5)
    monkeypatch.setattr(lanes, "MAX_LANES", 2)
    chart = lanes_chart(synthetic.run(sessions=6, turns=3, lanes=5).view().rows)
    assert len(synthetic.traces(chart)[0].z) == 2
    assert "The first 2 of 5 lanes" in chart.summary


def test_without_a_request_there_is_nothing_to_draw() -> None:
    made = synthetic.run(1, 2, 1)
    made.requests.clear()
    chart = lanes_chart(made.view().rows)
    assert chart.figure is None
    assert chart.summary == "No request was sent."
