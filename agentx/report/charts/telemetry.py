"""What the server and the client said about themselves while the run went on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa

from agentx.report.charts.figure import SERIES, Chart, Key, axis, figure, plain, safe, time_axis
from agentx.report.distribution import thin
from agentx.report.facts import visible
from agentx.report.rows import Floats
from agentx.report.units import duration, megabytes, percent

MAX_SERIES = len(SERIES)
"""Lines of one chart."""

_POINTS = 600
"""Points of one line."""

Series: TypeAlias = Mapping[tuple[str, str], tuple[Floats, Floats]]
"""(source, name) to (seconds from the run's start, values), by time."""


_MOST = 1e15
"""No time and no metric that is drawn is larger, or negative."""

_CPU = ("client", "cpu_s")
"""Seconds of processor time so far: drawn as the share of a core that they grew by."""


@dataclass(frozen=True, slots=True)
class _Group:
    key: str
    title: str
    caption: str
    source: str
    pattern: re.Pattern[str]
    unit: str


_WORDS = {
    "cpu": "processor",
    "loop_lag_ms": "loop lag",
    "rss_mb": "memory",
    **dict.fromkeys(("vllm:kv_cache_usage_perc", "sglang:token_usage"), "KV cache"),
    **dict.fromkeys(
        (
            "vllm:num_requests_running",
            "sglang:num_running_reqs",
            "llamacpp:requests_processing",
            "dynamo_frontend_inflight_requests",
        ),
        "running",
    ),
    **dict.fromkeys(
        (
            "vllm:num_requests_waiting",
            "sglang:num_queue_reqs",
            "llamacpp:requests_deferred",
            "dynamo_frontend_queued_requests",
        ),
        "waiting",
    ),
}
"""Words for the series that a run of ours keeps; others go by their own names."""

_GROUPS = (
    _Group(
        "kv",
        "KV cache in use",
        "The share of the server's KV cache that running requests hold, as its /metrics say. "
        "Near 100 % the server makes requests wait, or drops what it kept for later.",
        "server",
        re.compile(r"cache_usage|token_usage"),
        "share",
    ),
    _Group(
        "queue",
        "Requests running and waiting",
        "How many requests the server computes at once, and how many stand in its queue, as its "
        "/metrics say.",
        "server",
        re.compile(r"running|waiting|queued?_re|processing|deferred|inflight"),
        "requests",
    ),
    _Group(
        "lag",
        "Lag of the client",
        "How late the load generator came to appointments with itself, the worst in each piece of "
        "time, in wall time: where this is large, the latencies above are partly the client's.",
        "client",
        re.compile(r"lag"),
        "ms",
    ),
    _Group(
        "cpu",
        "Processor of the client",
        "What the load generator itself used of one core. Near 100 % it is the bottleneck.",
        "client",
        re.compile(r"cpu"),
        "share of one core",
    ),
    _Group(
        "memory",
        "Memory of the client",
        "Resident memory of the load generator.",
        "client",
        re.compile(r"rss|memory"),
        "MB",
    ),
)


def series_of(table: pa.Table, time_scale: float = 1.0) -> Series:
    """The lines of telemetry.parquet: columns t_ms, source, name, value."""
    wanted = ("t_ms", "source", "name", "value")
    if not all(name in table.column_names for name in wanted):
        return {}
    times, sources, names, values = (table.column(name).to_pylist() for name in wanted)
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for time, source, name, value in zip(times, sources, names, values, strict=True):
        if (
            isinstance(source, str)
            and isinstance(name, str)
            and _plausible(time)
            and _plausible(value)
        ):
            points.setdefault((source, name), []).append((time * time_scale / 1000, float(value)))
    lines: dict[tuple[str, str], tuple[Floats, Floats]] = {}
    for key, pairs in points.items():
        array = np.array(sorted(pairs, key=lambda pair: pair[0]), dtype=np.float64)
        line = (array[:, 0], array[:, 1])
        if key == _CPU:
            lines["client", "cpu"] = _a_second(*line, time_scale)
        else:
            lines[key] = line
    return lines


def _a_second(times: Floats, values: Floats, time_scale: float) -> tuple[Floats, Floats]:
    """What a sum grew by, a second of wall time; each rate stands where its piece ends."""
    wall = np.diff(times) / time_scale
    ahead = wall > 0
    return times[1:][ahead], np.diff(values)[ahead] / wall[ahead]


def telemetry_charts(series: Series) -> tuple[Chart, ...]:
    """A chart for each group that the run has any line of."""
    charts = []
    for group in _GROUPS:
        lines = {
            name: line
            for (source, name), line in sorted(series.items())
            if source == group.source and group.pattern.search(name) and len(line[0])
        }
        if lines:
            charts.append(_chart(group, lines))
    return tuple(charts)


def _chart(group: _Group, lines: Mapping[str, tuple[Floats, Floats]]) -> Chart:
    shown = list(lines.items())[:MAX_SERIES]
    traces = []
    said = []
    labels = _labels([name for name, _ in shown])
    keys = tuple(Key(label, colour) for label, colour in zip(labels, SERIES, strict=False))
    for key, (_, (times, values)) in zip(keys, shown, strict=True):
        places = thin(values, _POINTS)
        traces.append(
            go.Scatter(
                x=plain(times[places], 6),
                y=plain(values[places], 4),
                mode="lines",
                name=safe(key.label),
                line={"color": key.colour, "width": 1.5},
                hovertemplate="%{y:,.4~g} at %{x:,.4~g} s<extra></extra>",
            )
        )
        said.append(f"{key.label} up to {_with_unit(float(values.max()), group.unit)}")
    summary = f"{'; '.join(said)}."
    if len(lines) > len(shown):
        summary += f" {len(shown)} of {len(lines)} series are drawn."
    drawing = figure(
        *traces,
        xaxis=time_axis(),
        yaxis=axis(
            group.unit,
            rangemode="tozero",
            **({"tickformat": ".0%"} if "share" in group.unit else {}),
        ),
    )
    legend = keys if len(keys) > 1 else ()
    return Chart(f"telemetry_{group.key}", group.title, group.caption, summary, drawing, legend)


def _labels(names: Sequence[str]) -> list[str]:
    """What series are called: in words where they are known and no two would be called the same."""
    words = [_WORDS.get(name) for name in names]
    return [
        visible(name, 60) if word is None or words.count(word) > 1 else word
        for name, word in zip(names, words, strict=True)
    ]


def _with_unit(value: float, unit: str) -> str:
    if unit == "ms":
        return duration(value)
    if unit == "MB":
        return megabytes(value)
    if "share" in unit:
        return percent(value)
    return f"{value:,.4g}"


def _plausible(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _MOST
