"""Several runs beside each other: their hit rates and their TTFT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import plotly.graph_objects as go

from agentx.report.charts.figure import (
    BLUE,
    GREEN,
    SERIES,
    Chart,
    Key,
    axis,
    figure,
    log_axis,
    plain,
    safe,
    share_axis,
)
from agentx.report.distribution import curve
from agentx.report.rows import Floats
from agentx.report.units import counted, percent

MAX_RUNS = len(SERIES)
"""Curves of one chart: as many as there are colours."""

Clock: TypeAlias = Literal["engine", "client", "scaled"]
"""Whose clock a time is by; `scaled`: the client's, × the speed of the engine's."""

_CLOCKS: dict[Clock, str] = {
    "engine": "by the engine's own clock",
    "client": "by the client's clock",
    "scaled": "by the client's clock, scaled",
}

_FLOOR_MS = 0.001
"""A logarithmic axis has no 0."""


@dataclass(frozen=True, slots=True)
class Waits:
    """TTFT of a run's answered requests, ms, and by whose clock."""

    label: str
    ttft_ms: Floats
    clock: Clock


def hit_rates(runs: Sequence[tuple[str, float | None, float | None]]) -> Chart:
    """A pair of bars a run, of (label, theoretical, reported)."""
    title = "Hit rate by run"
    caption = (
        "The share of all prompt tokens that came from the cache. Theoretical: a cache that never "
        "evicts. Reported: what the server said. The distance is what each run lost."
    )
    labels = [safe(label) for label, _, _ in runs]
    legend = (Key("theoretical", GREEN), Key("reported", BLUE))
    bars = [
        go.Bar(
            x=list(range(len(runs))),
            y=values,
            name=key.label,
            marker={"color": key.colour},
            text=[percent(value) if value is not None else "unknown" for value in values],
            textposition="auto",
            hovertemplate=f"{key.label}: %{{y:.2%}}<extra></extra>",
        )
        for key, values in zip(
            legend,
            ([theoretical for _, theoretical, _ in runs], [reported for _, _, reported in runs]),
            strict=True,
        )
    ]
    summary = "; ".join(
        f"{label}: theoretical {percent(theoretical)}, reported {percent(reported)}"
        for label, theoretical, reported in runs
    )
    drawing = figure(
        *bars,
        barmode="group",
        xaxis=axis("", tickmode="array", tickvals=list(range(len(runs))), ticktext=labels),
        yaxis=share_axis("share of prompt tokens"),
    )
    return Chart("runs_hit_rate", title, caption, summary, drawing, legend, height=300)


def ttft_curves(runs: Sequence[Waits]) -> Chart:
    """A cumulative curve a run; where they are by several clocks the legend says by which."""
    caption = (
        "A curve a run: at a time on the lower axis, the share of its requests whose first token "
        "came no later. Further left is faster."
    )
    known = [(run, found) for run in runs if (found := curve(run.ttft_ms)) is not None]
    drawn = known[:MAX_RUNS]
    clocks = {run.clock for run, _ in drawn}
    title = "TTFT by run"
    if len(clocks) == 1 and "client" not in clocks:
        title += f", {_CLOCKS[drawn[0][0].clock]}"
    if len(clocks) > 1:
        caption += (
            " Not all runs are by the same clock: the client's lag is in its times, and in scaled "
            "ones many times over."
        )
    if not drawn:
        return Chart("runs_ttft", title, caption, "No run has a TTFT.")
    keys = tuple(
        Key(
            f"{run.label}, {_CLOCKS[run.clock]}" if len(clocks) > 1 else run.label,
            colour,
            dashed=number % 2 == 1,
        )
        for number, ((run, _), colour) in enumerate(zip(drawn, SERIES, strict=False))
    )
    traces = [
        go.Scatter(
            x=plain(np.maximum(found.at, _FLOOR_MS)),
            y=plain(found.share),
            mode="lines",
            name=safe(key.label),
            line={"color": key.colour, "width": 2, "dash": "dash" if key.dashed else "solid"},
            hovertemplate="%{y:.1%} within %{x:,.4~g} ms<extra></extra>",
        )
        for key, (_, found) in zip(keys, drawn, strict=True)
    ]
    summary = (
        "; ".join(f"{run.label}: {counted(found.values, 'request')}" for run, found in drawn) + "."
    )
    if len(known) > len(drawn):
        summary += f" The first {len(drawn)} of {len(known)} runs are drawn."
    if len(known) < len(runs):
        summary += f" {len(runs) - len(known)} of the {len(runs)} runs have no TTFT."
    drawing = figure(
        *traces,
        xaxis=log_axis(
            "ms", np.maximum(np.concatenate([found.at for _, found in drawn]), _FLOOR_MS)
        ),
        yaxis=share_axis("share of requests"),
    )
    return Chart("runs_ttft", title, caption, summary, drawing, keys, height=300)
