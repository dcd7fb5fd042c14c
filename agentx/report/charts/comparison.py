"""Several runs beside each other: their hit rates and their TTFT."""

from __future__ import annotations

from collections.abc import Sequence

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
from agentx.report.units import percent

MAX_RUNS = len(SERIES)


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


def ttft_curves(runs: Sequence[tuple[str, Floats]], *, own_times: bool) -> Chart:
    """A cumulative curve a run, of (label, TTFT of its answered requests).

    `own_times`: they are the engines' own.
    """
    title = "TTFT by run, by the engine's own clock" if own_times else "TTFT by run"
    caption = (
        "A curve a run: at a time on the lower axis, the share of its requests whose first token "
        "came no later. Further left is faster."
    )
    traces = []
    said = []
    shown = []
    keys: list[Key] = []
    for (label, values), colour in zip(runs, SERIES, strict=False):
        found = curve(values)
        if found is None:
            continue
        said.append(f"{label}: {found.values:,} requests")
        shown.append(found.at)
        keys.append(Key(label, colour, dashed=len(keys) % 2 == 1))
        traces.append(
            go.Scatter(
                x=plain(np.maximum(found.at, 0.001)),
                y=plain(found.share),
                mode="lines",
                name=safe(label),
                line={"color": colour, "width": 2, "dash": "dash" if keys[-1].dashed else "solid"},
                hovertemplate="%{y:.1%} within %{x:,.4~g} ms<extra></extra>",
            )
        )
    if not traces:
        return Chart("runs_ttft", title, caption, "No run has a TTFT.")
    summary = "; ".join(said) + "."
    if len(runs) > MAX_RUNS:
        summary += f" The first {MAX_RUNS} of {len(runs)} runs are drawn."
    drawing = figure(
        *traces,
        xaxis=log_axis("ms", np.concatenate(shown)),
        yaxis=share_axis("share of requests"),
    )
    return Chart("runs_ttft", title, caption, summary, drawing, tuple(keys), height=300)
