"""Telemetry becomes lines by name; rates come from what sums grew by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from agentx.replay.runs import TELEMETRY
from agentx.replay.servers import SERVERS
from agentx.report.charts.telemetry import MAX_SERIES, series_of, telemetry_charts
from tests.report import synthetic


def table(*rows: tuple[float, str, str, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(TELEMETRY.names, row, strict=True)) for row in rows], schema=TELEMETRY
    )


def test_processor_time_is_drawn_as_a_share_of_wall_time() -> None:
    series = series_of(
        table((0, "client", "cpu_s", 0.0), (2000, "client", "cpu_s", 1.0)), time_scale=10
    )
    times, values = series["client", "cpu"]
    assert times.tolist() == [20.0]
    assert values.tolist() == [pytest.approx(0.5)]


def test_lines_stand_in_the_order_of_time() -> None:
    series = series_of(table((2000, "server", "a", 2.0), (1000, "server", "a", 1.0)))
    times, values = series["server", "a"]
    assert times.tolist() == [1.0, 2.0]
    assert values.tolist() == [1.0, 2.0]


def test_a_value_that_is_none_or_no_number_is_no_point() -> None:
    rows = pa.table(
        {
            "t_ms": [1.0, None, 3.0, 4.0],
            "source": ["server", "server", None, "server"],
            "name": ["a", "a", "a", "a"],
            "value": [float("nan"), 2.0, 3.0, 4.0],
        }
    )
    times, _ = series_of(rows)["server", "a"]
    assert times.tolist() == [0.004]
    assert series_of(pa.table({"t_ms": [1]})) == {}


def test_each_group_that_the_run_knows_has_a_chart() -> None:
    charts = telemetry_charts(
        series_of(
            table(
                (0, "server", "vllm:kv_cache_usage_perc", 0.5),
                (0, "server", "sglang:num_queue_reqs", 3),
                (0, "server", "vllm:prompt_tokens_total", 1000),
                (0, "client", "cpu_s", 0.1),
            )
        )
    )
    # One reading of processor time tells no rate, and a counter of tokens is in no group.
    assert [chart.key for chart in charts] == ["telemetry_kv", "telemetry_queue"]
    assert "50.0 %" in charts[0].summary


def test_more_lines_than_colours_are_cut_and_said() -> None:
    rows = [(0.0, "server", f"running_{n}", 1.0) for n in range(MAX_SERIES + 3)]
    (chart,) = telemetry_charts(series_of(table(*rows)))
    assert len(synthetic.traces(chart)) == MAX_SERIES
    assert f"{MAX_SERIES} of {MAX_SERIES + 3} series" in chart.summary


def test_series_that_are_known_go_by_words_and_values_have_their_unit() -> None:
    charts = telemetry_charts(
        series_of(
            table(
                (0, "client", "rss_mb", 160.9),
                (0, "client", "loop_lag_ms", 1.25),
                (0, "server", "vllm:num_requests_running", 3),
                (0, "server", "odd_waiting", 2),
            )
        )
    )
    assert {chart.key.removeprefix("telemetry_"): chart.summary for chart in charts} == {
        "queue": "odd_waiting up to 2; running up to 3.",
        "lag": "loop lag up to 1.25 ms.",
        "memory": "memory up to 161 MB.",
    }


def test_two_series_of_one_word_keep_their_names() -> None:
    names = ("vllm:num_requests_running", "sglang:num_running_reqs")
    (chart,) = telemetry_charts(series_of(table(*((0.0, "server", name, 1.0) for name in names))))
    assert {key.label for key in chart.legend} == set(names)


def test_every_server_that_tells_its_queue_has_it_drawn_in_words() -> None:
    for server in SERVERS.values():
        if not server.sums:
            continue
        lines = table(*((0.0, "server", name, 1.0) for name in server.sums))
        chart = next(c for c in telemetry_charts(series_of(lines)) if c.key == "telemetry_queue")
        assert {key.label for key in chart.legend} == {"running", "waiting"}, server.kind
