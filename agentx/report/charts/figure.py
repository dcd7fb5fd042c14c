"""What every chart has in common: its words, its colours, its axes, and safe text.

A figure carries no theme. The page's script gives all of them one, light or dark, from the page's
own colours.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import plotly.graph_objects as go

from agentx.report.facts import visible
from agentx.report.rows import Floats

Figure: TypeAlias = Any
"""A plotly.graph_objects.Figure; plotly has no types."""

# Each has a contrast of 3:1 or more on the page's white and on its near-black.
BLUE = "#3b7dd8"
ORANGE = "#d9700a"
GREEN = "#2a9d5f"
RED = "#e03c3c"
PURPLE = "#9467d4"
GREY = "#858b96"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)


@dataclass(frozen=True, slots=True)
class Key:
    """One line of a chart's legend. It stands in the page, where it wraps on a narrow screen."""

    label: str
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart with the words around it. `figure` is None where there is nothing to draw."""

    key: str
    """Names it within its run."""
    title: str
    caption: str
    """What it shows and how to read it, for somebody who sees it for the first time."""
    summary: str
    """What this one shows; where nothing is drawn, why."""
    figure: Figure | None = None
    legend: tuple[Key, ...] = ()
    height: int = 260
    wide: bool = False
    """Whether it takes the page's whole width."""


def figure(*traces: Any, **layout: Any) -> Figure:
    """A figure with the page's common layout and no theme."""
    common: dict[str, Any] = {
        "template": go.layout.Template(),
        "margin": {"l": 60, "r": 16, "t": 12, "b": 48},
        "hovermode": "closest",
        "showlegend": False,
    }
    return go.Figure(data=list(traces), layout=common | layout)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis that says what it counts and in which unit."""
    return {"title": {"text": title, "standoff": 8}, "automargin": True} | more


def log_axis(title: str, values: Floats, **more: Any) -> dict[str, Any]:
    """A logarithmic axis with plain numbers on it: 0.1, 10, 1,000; `values` are what it shows.

    Which numbers there is room for, the page's script decides: it knows the chart's width.
    """
    known = np.log10(values[np.isfinite(values) & (values > 0)])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    edge = max(0.03 * (high - low), 0.02)
    return axis(title, type="log", tickformat=",.6~g", range=[low - edge, high + edge], **more)


def time_axis(**more: Any) -> dict[str, Any]:
    """An axis of seconds since the run's start."""
    return axis("s from the run's start", tickformat=",.6~g", rangemode="tozero", **more)


def share_axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis from 0 to 100 %."""
    return axis(title, tickformat=".0%", range=[0, 1.03], **more)


def safe(text: str | None, limit: int = 60) -> str:
    """A text from outside as a chart may show it: its tags are letters, not markup."""
    return html.escape(visible(text, limit), quote=False) if text else "unknown"


def plain(values: Floats, digits: int = 5) -> list[float | None]:
    """An array for a figure: few digits, so that the page stays small; None where unknown."""
    return [
        float(f"{value:.{digits}g}") if known else None
        for value, known in zip(values.tolist(), np.isfinite(values).tolist(), strict=True)
    ]


def drawn_of(drawn: int, total: int, first: str) -> str:
    """How many of a run's requests a chart shows, where not all: `first` says which before all."""
    if drawn == total:
        return ""
    return f" {drawn:,} of them are drawn: {first}, and of the others every so many."
