"""What each lane did when: a bar a request, or a coarse map where there are too many for bars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from agentx.report.charts.figure import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    Chart,
    Figure,
    Key,
    axis,
    figure,
    plain,
    safe,
    time_axis,
)
from agentx.report.distribution import nice_width
from agentx.report.rows import Floats, Rows
from agentx.report.units import counted, duration, percent, whole

MAX_BARS = 3000
MAX_TRACKS = 120
MAX_LANES = 256
_COLUMNS = 200

_CLASSES = (
    ("95 % or more found", 0.95, BLUE),
    ("80 to 95 %", 0.8, "#8a7fc0"),
    ("50 to 80 %", 0.5, "#c2738f"),
    ("under 50 %", 0.0, ORANGE),
)
"""Label, least hit rate, colour: blue to orange, told apart by eyes that see no red or green."""

_SCALE = ((0.0, ORANGE), (0.5, "#c2738f"), (0.8, "#8a7fc0"), (1.0, BLUE))

_TITLE = "What each lane did"
_CAPTION = (
    "Time runs to the right; each lane plays one session after another, and sits idle while an "
    "agent thinks or a tool runs. Subagents that run at once stand below their main agent. Blue: "
    "the prompt was found in the cache. Orange: it was computed anew."
)


@dataclass(frozen=True, slots=True)
class Tracks:
    """Where each bar stands, so that no two that overlap in time share a line."""

    line: NDArray[np.int64]
    """0.. from the top, one a request."""
    lane_first: dict[int, int]
    """The first line of each lane."""
    lines: int


def stack(lanes: Floats, starts: Floats, ends: Floats) -> Tracks:
    """Give each interval the first free line of its lane; intervals come in order of start."""
    free_from: dict[int, list[float]] = {}
    within = np.zeros(len(lanes), dtype=np.int64)
    for i, (lane, start, end) in enumerate(
        zip(lanes.astype(np.int64).tolist(), starts.tolist(), ends.tolist(), strict=True)
    ):
        lines = free_from.setdefault(lane, [])
        line = next((n for n, free in enumerate(lines) if free <= start), len(lines))
        if line == len(lines):
            lines.append(end)
        else:
            lines[line] = end
        within[i] = line
    first: dict[int, int] = {}
    total = 0
    for lane in sorted(free_from):
        first[lane] = total
        total += len(free_from[lane])
    offsets = np.array([first[lane] for lane in lanes.astype(np.int64).tolist()], dtype=np.int64)
    return Tracks(within + offsets, first, total)


def lanes_chart(rows: Rows) -> Chart:
    """Bars for up to 3,000 requests on up to 120 lines, else the map."""
    sent = np.flatnonzero(np.isfinite(rows.sent_s) & np.isfinite(rows.lane))
    if not len(sent):
        return Chart("lanes", _TITLE, _CAPTION, "No request was sent.", wide=True)
    starts = rows.sent_s[sent]
    ends = np.where(np.isfinite(rows.end_s[sent]), rows.end_s[sent], starts)
    lanes = rows.lane[sent]
    summary = (
        f"{counted(len(np.unique(lanes)), 'lane')}, {counted(len(sent), 'request')}, "
        f"{whole(int(rows.failed[sent].sum()))} of them failed; "
        f"{duration(float(ends.max()) * 1000)} from first to last."
    )
    tracks = stack(lanes, starts, ends) if len(sent) <= MAX_BARS else None
    if tracks is None or tracks.lines > MAX_TRACKS:
        drawing, height, note = _map(rows, sent)
        return Chart("lanes", _TITLE, _CAPTION, summary + note, drawing, (), height, wide=True)
    drawing, legend = _bars(rows, sent, starts, ends, tracks)
    height = 70 + max(22 * tracks.lines, 60) if tracks.lines < 40 else 70 + 12 * tracks.lines
    return Chart("lanes", _TITLE, _CAPTION, summary, drawing, legend, height, wide=True)


def _bars(
    rows: Rows, sent: NDArray[np.int64], starts: Floats, ends: Floats, tracks: Tracks
) -> tuple[Figure, tuple[Key, ...]]:
    # A bar thinner than a pixel would not be seen; what the reader points at is the real time.
    widths = np.maximum(ends - starts, float(ends.max()) / 1000)
    rates = rows.reported_rate[sent]
    failed = rows.failed[sent]
    names = [
        f"{safe(rows.session[i])} · {safe(rows.agent[i], 30)} · #{rows.request[i]:.0f}"
        f"<br>{duration(_ms(ends[n] - starts[n]))}, hit rate {percent(_known(rates[n]))}"
        + (f"<br>{safe(rows.error[i], 30)}" if rows.error[i] else "")
        for n, i in enumerate(sent)
    ]

    def bars(label: str, which: NDArray[np.bool_], colour: str) -> go.Bar:
        places = np.flatnonzero(which)
        return go.Bar(
            orientation="h",
            name=label,
            base=plain(starts[places], 7),
            x=plain(widths[places]),
            y=tracks.line[places].tolist(),
            width=0.8,
            marker={"line": {"width": 0}, "color": colour},
            hovertext=[names[place] for place in places],
            hovertemplate="%{hovertext}<extra></extra>",
        )

    # One trace a colour class, not a colour for each bar: so the legend says what they mean.
    classes = []
    below = 2.0
    for label, least, colour in _CLASSES:
        classes.append(bars(label, ~failed & (rates >= least) & (rates < below), colour))
        below = least
    classes.append(bars("the server did not say", ~failed & ~np.isfinite(rates), GREY))
    classes.append(bars("failed", failed, RED))
    crosses = _crosses(
        ends[failed], tracks.line[failed], [names[n] for n in np.flatnonzero(failed)]
    )
    labels = sorted(tracks.lane_first.items())
    classes = [trace for trace in classes if len(trace.y)]
    drawing = figure(
        *classes,
        crosses,
        barmode="overlay",
        xaxis=time_axis(),
        yaxis=axis(
            "",
            tickmode="array",
            tickvals=[first for _, first in labels],
            ticktext=[f"lane {lane}" for lane, _ in labels],
            range=[tracks.lines - 0.4, -0.6],
            zeroline=False,
        ),
        shapes=[
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": first - 0.5,
                "y1": first - 0.5,
                "line": {"color": GREY, "width": 0.5},
            }
            for _, first in labels[1:]
        ],
    )
    return drawing, tuple(Key(trace.name, trace.marker.color) for trace in classes)


def _map(rows: Rows, sent: NDArray[np.int64]) -> tuple[Figure, int, str]:
    """Lanes × pieces of time, each cell the token-weighted hit rate of what was sent in it."""
    numbers, places = np.unique(rows.lane[sent].astype(np.int64), return_inverse=True)
    shown = places < MAX_LANES
    times = rows.sent_s[sent]
    width = nice_width(float(times.max()), _COLUMNS)
    columns = (times / width).astype(np.int64)
    shape = (min(len(numbers), MAX_LANES), int(columns.max()) + 1)
    cells = places * shape[1] + columns
    counted = shown & np.isfinite(rows.reported_rate[sent]) & rows.answered[sent]
    size = shape[0] * shape[1]
    tops = np.bincount(cells[counted], rows.cached_tokens[sent][counted], size)
    bottoms = np.bincount(cells[counted], rows.prompt_tokens[sent][counted], size)
    rates = np.divide(tops, bottoms, out=np.full(size, np.nan), where=bottoms > 0)
    middles: Floats = (np.arange(shape[1], dtype=np.float64) + 0.5) * width
    heat = go.Heatmap(
        x=plain(middles),
        y=list(range(shape[0])),
        z=[plain(line, 3) for line in rates.reshape(shape)],
        colorscale=_SCALE,
        zmin=0,
        zmax=1,
        colorbar={
            "title": {"text": "hit rate"},
            "tickformat": ".0%",
            "thickness": 12,
            "outlinewidth": 0,
        },
        hoverongaps=False,
        hovertemplate="line %{y}, %{x:,.4~g} s: hit rate %{z:.1%}<extra></extra>",
    )
    bad = np.unique(cells[shown & rows.failed[sent]])
    crosses = _crosses(middles[bad % shape[1]], bad // shape[1], ["failed requests"] * len(bad))
    step = max(1, shape[0] // 20)
    drawing = figure(
        heat,
        crosses,
        xaxis=time_axis(),
        yaxis=axis(
            "",
            tickmode="array",
            tickvals=list(range(0, shape[0], step)),
            ticktext=[f"lane {number}" for number in numbers[: shape[0] : step]],
            range=[shape[0] - 0.5, -0.5],
        ),
    )
    note = (
        f" Too many for bars: each cell is the hit rate of what a lane sent in {width:g} s; "
        "blank: nothing."
    )
    if len(numbers) > MAX_LANES:
        note += f" The first {MAX_LANES} of {len(numbers):,} lanes are drawn."
    return drawing, 110 + min(max(6 * shape[0], 160), 900), note


def _crosses(x: Floats, y: NDArray[np.int64], names: list[str]) -> go.Scatter:
    return go.Scatter(
        x=plain(x, 7),
        y=y.tolist(),
        mode="markers",
        name="failed",
        marker={"symbol": "x", "color": RED, "size": 8},
        text=names,
        hovertemplate="%{text}<extra></extra>",
    )


def _ms(seconds: float) -> float:
    return seconds * 1000


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
