"""The page: one HTML file that holds its charts, its script and its style, and asks nobody.

Everything from a run is hostile. Jinja escapes what stands in the page, plotly's JSON encoder
writes `<`, `>` and `/` of a chart's data as escapes, and a content security policy lets only the
page's own scripts run, by their hash, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from agentx import __version__
from agentx.report import listings, notices, numbers
from agentx.report.charts.cache import (
    hit_rate_over_time,
    theoretical_against_achieved,
    where_tokens_went,
)
from agentx.report.charts.comparison import Waits, hit_rates, ttft_curves
from agentx.report.charts.figure import Chart
from agentx.report.charts.lanes import lanes_chart
from agentx.report.charts.latency import latency_charts, ttft_against_uncached
from agentx.report.charts.telemetry import telemetry_charts
from agentx.report.facts import number, visible
from agentx.report.view import RunView

MAX_RUNS = 20
"""Runs of one page."""


@dataclass(frozen=True, slots=True)
class _Section:
    """One run's part of the page, ready to be laid out."""

    number: int
    name: str
    notices: tuple[notices.Notice, ...]
    headline: tuple[numbers.Figure, ...]
    latencies: tuple[numbers.Spread, ...]
    throughput: tuple[numbers.Figure, ...]
    cache: tuple[numbers.Figure, ...]
    client: tuple[numbers.Figure, ...]
    how: tuple[tuple[str, list[tuple[str, str]]], ...]
    errors: tuple[tuple[str, int], ...]
    failures: tuple[listings.Failure, ...]
    failed: int
    latency_charts: tuple[Chart, ...]
    cost_chart: Chart
    cache_charts: tuple[Chart, ...]
    lanes_chart: Chart
    telemetry_charts: tuple[Chart, ...]
    differences: tuple[tuple[str, str], ...]


def render(runs: Sequence[RunView]) -> str:
    """The page of one or more runs: the same runs give the same page.

    Raises:
        ValueError: there is no run.
    """
    if not runs:
        raise ValueError("a page needs a run")
    differing = listings.differences(runs)
    own_times = any(numbers.tells_own_times(run) for run in runs)
    sections = [
        _section(n, run, differing[n - 1] if len(runs) > 1 else (), own_times)
        for n, run in enumerate(runs, start=1)
    ]
    plotly_js, page_js = _ours(get_plotlyjs()), _ours(_file("page.js"))
    template = Environment(
        loader=PackageLoader("agentx.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html")
    return template.render(
        version=__version__,
        sections=sections,
        comparison=_comparison(runs, sections),
        script_hashes=[_hash(plotly_js), _hash(page_js)],
        plotly_js=plotly_js,
        page_js=page_js,
        css=_ours(_file("page.css")),
        chart_json=_chart_json,
        max_failed=listings.MAX_FAILED,
    )


def _section(
    place: int, run: RunView, differences: tuple[tuple[str, str], ...], own_times: bool
) -> _Section:
    rows = run.rows
    return _Section(
        number=place,
        name=visible(run.name, 120),
        notices=notices.notices(run),
        headline=numbers.headline(run, own_times=own_times),
        latencies=numbers.latencies(run),
        throughput=numbers.throughput(run),
        cache=numbers.cache(run),
        client=numbers.client(run),
        how=listings.how_it_was_run(run),
        errors=listings.errors(run),
        failures=listings.failures(run),
        failed=int(rows.failed.sum()),
        latency_charts=latency_charts(rows, run.gaps, numbers.marks(run)),
        cost_chart=ttft_against_uncached(rows),
        cache_charts=(
            where_tokens_went(rows),
            hit_rate_over_time(rows),
            theoretical_against_achieved(rows),
        ),
        lanes_chart=lanes_chart(rows),
        telemetry_charts=telemetry_charts(run.telemetry),
        differences=differences,
    )


def _comparison(runs: Sequence[RunView], sections: Sequence[_Section]) -> tuple[Chart, ...]:
    if len(runs) < 2:
        return ()
    labels = [section.name for section in sections]
    rates = [
        (
            label,
            number(run.aggregate, "hit_rate", "theoretical"),
            number(run.aggregate, "hit_rate", "reported"),
        )
        for label, run in zip(labels, runs, strict=True)
    ]
    waits = [_waits(label, run) for label, run in zip(labels, runs, strict=True)]
    return (hit_rates(rates), ttft_curves(waits))


def _waits(label: str, run: RunView) -> Waits:
    """A run's TTFT by the clock to compare it by: a scaled client's lag is a part of its times."""
    rows = run.rows
    if run.time_scale is None:
        return Waits(label, rows.ttft_ms[rows.answered], "client")
    own = rows.engine_ttft_ms[rows.answered]
    if np.isfinite(own).any():
        return Waits(label, own, "engine")
    return Waits(label, rows.ttft_ms[rows.answered], "scaled")


def _chart_json(chart: Chart) -> Markup:
    """A chart's data for a `script type=application/json`, which it cannot close."""
    figure = chart.figure.to_dict() if chart.figure is not None else {}
    return _ours(to_json_plotly({"data": figure["data"], "layout": figure["layout"]}))


def _ours(text: str) -> Markup:
    """A text that needs no escaping: written by us, or escaped by its encoder."""
    return Markup(text)  # noqa: S704


def _file(name: str) -> str:
    return (files("agentx.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()
