"""How long users wait: the four latencies as cumulative curves, and what a miss costs in TTFT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from agentx.report.charts.figure import (
    BLUE,
    GREY,
    ORANGE,
    Chart,
    Key,
    drawn_of,
    figure,
    log_axis,
    plain,
    safe,
    share_axis,
)
from agentx.report.distribution import Curve, curve, thin
from agentx.report.rows import Floats, Rows
from agentx.report.units import counted, duration, whole

_MARKS = (0.5, 0.9, 0.99)

_FLOOR_MS = 0.001
"""A logarithmic axis has no 0; nothing shorter than a microsecond was measured."""

_READ = (
    "The curve climbs from the fastest to the slowest: at a time on the lower axis it shows the "
    "share that took no longer. The dots are p50, p90 and p99."
)


@dataclass(frozen=True, slots=True)
class _Latency:
    key: str
    title: str
    meaning: str
    noun: str


_TTFT = _Latency(
    "ttft",
    "TTFT: time to first token",
    "From sending a request to the first event that carries output of any kind.",
    "request",
)
_TPOT = _Latency(
    "tpot",
    "TPOT: time per output token",
    "How long each further token of an answer took, averaged over the answer.",
    "request",
)
_ITL = _Latency(
    "itl",
    "ITL: gap between events",
    "The gap between one output event and the next: how evenly the text flows. Events that came "
    "in one piece have a gap of 0 (drawn at 0.001 ms).",
    "gap",
)
_E2E = _Latency(
    "e2e",
    "E2E: whole request",
    "From sending a request to the end of its answer.",
    "request",
)


def latency_charts(
    rows: Rows, gaps: Curve | None, marks: Mapping[str, tuple[float, ...] | None]
) -> tuple[Chart, ...]:
    """The curves of TTFT, TPOT, ITL and E2E, over the requests that were answered.

    `marks` has p50, p90 and p99 by the chart's key where the run knows them, so that the dots say
    the same as its tables.
    """
    answered = rows.answered

    def of(values: Floats) -> Curve | None:
        return curve(values[answered])

    return (
        _chart(_TTFT, of(rows.ttft_ms), of(rows.engine_ttft_ms), marks.get("ttft")),
        _chart(_TPOT, of(rows.tpot_ms), of(rows.engine_tpot_ms), marks.get("tpot")),
        _chart(_ITL, gaps, None, marks.get("itl")),
        _chart(_E2E, of(rows.e2e_ms), of(rows.engine_e2e_ms), marks.get("e2e")),
    )


def _chart(
    latency: _Latency,
    measured: Curve | None,
    engine: Curve | None,
    marks: tuple[float, ...] | None,
) -> Chart:
    caption = f"{latency.meaning} {_READ}"
    if measured is None:
        return Chart(latency.key, latency.title, caption, "No value was measured.")
    keys = [Key("measured by the client", BLUE)]
    if engine is not None:
        keys.append(Key("by the engine's own clock", ORANGE, dashed=True))
    curves = (measured,) if engine is None else (measured, engine)
    lines = [_line(found, key) for found, key in zip(curves, keys, strict=True)]
    drawn = np.concatenate([np.maximum(found.at, _FLOOR_MS) for found in curves])
    times = np.array(marks) if marks else np.interp(_MARKS, measured.share, measured.at)
    lines.append(
        go.Scatter(
            x=plain(np.maximum(times, _FLOOR_MS)),
            y=list(_MARKS),
            mode="markers",
            marker={"color": BLUE, "size": 8},
            text=["p50", "p90", "p99"],
            hovertemplate="%{text}: %{x:,.4~g} ms<extra></extra>",
        )
    )
    p50, p90, p99 = (duration(time) for time in times.tolist())
    summary = (
        f"{counted(measured.values, latency.noun)}: half within {p50}, "
        f"nine in ten within {p90}, 99 in a hundred within {p99}."
    )
    drawing = figure(
        *lines,
        xaxis=log_axis("ms", drawn),
        yaxis=share_axis(f"share of {latency.noun}s"),
    )
    legend = tuple(keys) if engine is not None else ()
    return Chart(latency.key, latency.title, caption, summary, drawing, legend)


def _line(found: Curve, key: Key) -> go.Scatter:
    return go.Scatter(
        x=plain(np.maximum(found.at, _FLOOR_MS)),
        y=plain(found.share),
        mode="lines",
        name=key.label,
        line={"color": key.colour, "width": 2, "dash": "dash" if key.dashed else "solid"},
        hovertemplate="%{y:.1%} within %{x:,.4~g} ms<extra></extra>",
    )


def ttft_against_uncached(rows: Rows) -> Chart:
    """What a miss costs: TTFT against the tokens that the server had to compute."""
    # The engine's own clock, where it tells, knows nothing of the client's lag.
    own = bool(np.isfinite(rows.engine_ttft_ms[rows.answered]).any())
    ttft = rows.engine_ttft_ms if own else rows.ttft_ms
    title = "TTFT against uncached tokens" + (", by the engine's own clock" if own else "")
    caption = (
        "Each dot is a request: to the right, more of its prompt had to be computed anew; "
        "upwards, its first token came later. A rising cloud means that misses cost time; "
        "dots that stand above it waited for something else, as a queue. A prompt that was cached "
        "whole is drawn at 1."
    )
    uncached = rows.prompt_tokens - rows.cached_tokens
    shown = np.flatnonzero(rows.answered & np.isfinite(uncached) & np.isfinite(ttft))
    if not len(shown):
        return Chart(
            "ttft_uncached",
            title,
            caption,
            "No request has both a TTFT and a count of cached tokens from the server.",
            wide=True,
        )
    drawn = shown[thin(ttft[shown])]
    dots = go.Scatter(
        x=plain(np.maximum(uncached[drawn], 1)),
        y=plain(np.maximum(ttft[drawn], _FLOOR_MS)),
        mode="markers",
        marker={"color": BLUE, "size": 6, "opacity": 0.55, "line": {"width": 0.5, "color": GREY}},
        text=[f"{safe(rows.session[i])} #{rows.request[i]:.0f}" for i in drawn],
        hovertemplate="%{text}<br>%{x:,.0f} tokens computed<br>%{y:,.4~g} ms<extra></extra>",
    )
    summary = (
        f"{counted(len(shown), 'request')}; the median computed "
        f"{whole(float(np.median(uncached[shown])))} tokens."
    ) + drawn_of(len(drawn), len(shown), "the slowest")
    drawing = figure(
        dots,
        xaxis=log_axis("tokens not cached", np.maximum(uncached[drawn], 1)),
        yaxis=log_axis("TTFT, ms", np.maximum(ttft[drawn], _FLOOR_MS)),
    )
    return Chart("ttft_uncached", title, caption, summary, drawing, height=340, wide=True)
