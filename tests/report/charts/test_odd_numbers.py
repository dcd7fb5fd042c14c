"""Whatever numbers a run's tables hold, its charts are made and are JSON."""

from __future__ import annotations

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from plotly.io.json import to_json_plotly

from agentx.replay.rows import REQUESTS
from agentx.report.charts.cache import (
    hit_rate_over_time,
    theoretical_against_achieved,
    where_tokens_went,
)
from agentx.report.charts.lanes import lanes_chart
from agentx.report.charts.latency import latency_charts, ttft_against_uncached
from agentx.report.charts.telemetry import series_of, telemetry_charts
from agentx.report.distribution import gaps_curve
from agentx.report.rows import event_lists, rows_of

NUMBERS = {
    field.name: st.none()
    | (
        st.floats(width=64) | st.sampled_from([0.0, -1.0, 1e300, 1e-300])
        if pa.types.is_floating(field.type)
        else st.integers(-(2**31), 2**31 - 1)
    )
    for field in REQUESTS
    if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
}
ROWS = st.lists(
    st.fixed_dictionaries(
        NUMBERS
        | {
            "event_ms": st.none() | st.lists(st.floats(width=64), max_size=4),
            "error": st.none() | st.just("odd"),
            "session_id": st.none() | st.text(max_size=5),
        }
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_charts_are_made_of_any_rows(requests: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(requests, schema=REQUESTS)
    rows = rows_of(table, 3.0)
    charts = (
        *latency_charts(rows, gaps_curve(event_lists(table), 3.0), {}),
        ttft_against_uncached(rows),
        where_tokens_went(rows),
        hit_rate_over_time(rows),
        theoretical_against_achieved(rows),
        lanes_chart(rows),
    )
    for chart in charts:
        assert chart.summary
        if chart.figure is not None:
            orjson.loads(to_json_plotly(chart.figure.to_dict()))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(width=64),
            st.sampled_from(["client", "server"]),
            st.sampled_from(["cpu_s", "loop_lag_ms", "kv_cache_usage", "running"]),
            st.floats(width=64),
        ),
        max_size=12,
    )
)
def test_charts_are_made_of_any_telemetry(values: list[tuple[float, str, str, float]]) -> None:
    names = ("t_ms", "source", "name", "value")
    table = pa.table(
        dict(zip(names, map(list, zip(*values, strict=True)), strict=True))
        if values
        else {name: pa.array([], pa.float64()) for name in names}
    )
    for chart in telemetry_charts(series_of(table, 2.0)):
        assert chart.summary
