"""How well the prefix was found again: over time, request by request, and in tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from agentx.report.charts.figure import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Chart,
    Key,
    axis,
    drawn_of,
    figure,
    plain,
    safe,
    share_axis,
    time_axis,
)
from agentx.report.distribution import nice_width, thin
from agentx.report.rows import Bools, Floats, Rows
from agentx.report.units import counted, percent, tokens, whole

_BINS = 60


@dataclass(frozen=True, slots=True)
class CacheTokens:
    """Tokens summed over the answered requests whose share of each sum is known."""

    requests: int
    """How many have a cached count from the server and a theoretical one."""
    trace_prompt: float
    theoretical: float
    server_prompt: float
    reported: float

    @property
    def findable(self) -> float:
        """Theoretical hits in the server's tokens: the trace's share of the server's prompt."""
        return self.theoretical / self.trace_prompt * self.server_prompt

    @property
    def lost(self) -> float:
        """What an endless cache would have found and the server did not; at least 0."""
        return max(self.findable - self.reported, 0.0)

    @property
    def new(self) -> float:
        """What no cache could have found."""
        return max(self.server_prompt - self.reported - self.lost, 0.0)


def cache_tokens(rows: Rows) -> CacheTokens | None:
    """Both sides' tokens over the same requests; None where no request has both."""
    both = _both(rows)
    prompt, trace = rows.prompt_tokens[both].sum(), rows.context_tokens[both].sum()
    if not both.any() or prompt <= 0 or trace <= 0:
        return None
    return CacheTokens(
        requests=int(both.sum()),
        trace_prompt=float(trace),
        theoretical=float(rows.theoretical_tokens[both].sum()),
        server_prompt=float(prompt),
        reported=float(rows.cached_tokens[both].sum()),
    )


def _both(rows: Rows) -> Bools:
    known: Bools = (
        rows.answered & np.isfinite(rows.theoretical_rate) & np.isfinite(rows.reported_rate)
    )
    return known


def where_tokens_went(rows: Rows) -> Chart:
    """All prompt tokens in three parts: found, lost, new."""
    title = "Where the prompt tokens went"
    caption = (
        "All tokens of all prompts. Found: the server had them in its cache. Lost: an endless "
        "cache would have had them, this server did not (evicted, or computed twice at once). "
        "New: nobody had sent them before."
    )
    sums = cache_tokens(rows)
    if sums is None:
        return Chart("tokens", title, caption, _NO_BOTH, wide=True)
    parts = (
        (Key("found", BLUE), sums.reported),
        (Key("lost", ORANGE), sums.lost),
        (Key("new", GREY), sums.new),
    )
    bars = [
        go.Bar(
            x=[value],
            y=[""],
            orientation="h",
            name=key.label,
            marker={"color": key.colour},
            text=[_label(key.label, value / sums.server_prompt)],
            textposition="inside",
            insidetextanchor="middle",
            hovertemplate=f"{key.label}: {tokens(value)} tokens<extra></extra>",
        )
        for key, value in parts
    ]
    drawing = figure(
        *bars,
        barmode="stack",
        xaxis=axis("tokens, as the server counts"),
        yaxis=axis("", showticklabels=False, ticks="", showline=False),
        margin={"l": 10, "r": 16, "t": 4, "b": 44},
    )
    summary = (
        f"Of {tokens(sums.server_prompt)} prompt tokens, {tokens(sums.reported)} were found in "
        f"the cache, {tokens(sums.lost)} could have been and were not, {tokens(sums.new)} were "
        f"new ({counted(sums.requests, 'request')})."
    )
    legend = tuple(key for key, _ in parts)
    return Chart("tokens", title, caption, summary, drawing, legend, height=110, wide=True)


def _label(name: str, share: float) -> str:
    """What stands in a bar, where it is wide enough for it."""
    return f"{name} {percent(share)}" if share > 0.08 else ""


_NO_BOTH = (
    "No answered request has both a theoretical count and a count of cached tokens from the "
    "server (usage.prompt_tokens_details.cached_tokens)."
)


def hit_rate_over_time(rows: Rows) -> Chart:
    """Token-weighted hit rates, theoretical and reported, in equal pieces of time."""
    title = "Hit rate over time"
    caption = (
        "The share of prompt tokens that came from the cache, by the time at which requests were "
        "sent. Theoretical: a cache that never evicts. Reported: what the server said. The "
        "distance between the two lines is what the server lost."
    )
    answered = rows.answered & np.isfinite(rows.sent_s)
    if not answered.any():
        return Chart("hit_rate", title, caption, "No request was answered.", wide=True)
    sent = rows.sent_s[answered]
    width = nice_width(float(sent.max()), min(_BINS, max(4, len(sent) // 4)))
    places = (sent / width).astype(np.int64)
    middles = (np.arange(places.max() + 1) + 0.5) * width
    lines = (
        (Key("theoretical", GREEN, dashed=True), rows.theoretical_tokens, rows.context_tokens),
        (Key("reported", BLUE), rows.cached_tokens, rows.prompt_tokens),
    )
    traces = []
    found = []
    legend = []
    for key, part, all_tokens in lines:
        rates = _binned(part[answered], all_tokens[answered], places)
        if not np.isfinite(rates).any():
            found.append(f"{key.label} unknown")
            continue
        legend.append(key)
        found.append(
            f"{key.label} between {percent(float(np.nanmin(rates)))} and "
            f"{percent(float(np.nanmax(rates)))}"
        )
        traces.append(
            go.Scatter(
                x=plain(middles),
                y=plain(rates),
                mode="lines+markers",
                name=key.label,
                connectgaps=False,
                line={"color": key.colour, "width": 2, "dash": "dash" if key.dashed else "solid"},
                marker={"size": 5},
                hovertemplate=f"{key.label}: %{{y:.2%}} at %{{x:,.4~g}} s<extra></extra>",
            )
        )
    summary = f"In pieces of {width:g} s: {'; '.join(found)}."
    if not traces:
        return Chart("hit_rate", title, caption, summary, wide=True)
    drawing = figure(
        *traces,
        xaxis=time_axis(range=[0, float(middles[-1] + width / 2)]),
        yaxis=share_axis("share of prompt tokens"),
    )
    return Chart("hit_rate", title, caption, summary, drawing, tuple(legend), wide=True)


def _binned(part: Floats, all_tokens: Floats, places: NDArray[np.int64]) -> Floats:
    """Σ part ÷ Σ all a piece; NaN for a piece without a request that has both."""
    known = np.isfinite(part) & np.isfinite(all_tokens)
    size = int(places.max()) + 1
    tops = np.bincount(places[known], part[known], size)
    bottoms = np.bincount(places[known], all_tokens[known], size)
    rates: Floats = np.divide(tops, bottoms, out=np.full(size, np.nan), where=bottoms > 0)
    return rates


def theoretical_against_achieved(rows: Rows) -> Chart:
    """Request by request: tokens an endless cache would have found, and tokens found."""
    title = "Theoretical against achieved, request by request"
    caption = (
        "Each dot is a request. To the right: the tokens of its prompt that an endless cache "
        "would have had. Upwards: the tokens that the server said it had. On the line nothing "
        "was lost; the further below, the more was computed again."
    )
    shown = np.flatnonzero(_both(rows))
    if not len(shown):
        return Chart("achieved", title, caption, _NO_BOTH)
    findable, found = rows.theoretical_tokens[shown], rows.cached_tokens[shown]
    lost = findable - found
    picked = thin(lost)
    top = float(max(findable.max(), found.max(), 1))
    dots = go.Scatter(
        x=plain(findable[picked], 7),
        y=plain(found[picked], 7),
        mode="markers",
        marker={"color": BLUE, "size": 6, "opacity": 0.55, "line": {"width": 0.5, "color": GREY}},
        text=[f"{safe(rows.session[i])} #{rows.request[i]:.0f}" for i in shown[picked]],
        hovertemplate=(
            "%{text}<br>theoretical %{x:,.0f} tokens<br>reported %{y:,.0f} tokens<extra></extra>"
        ),
    )
    line = go.Scatter(
        x=[0, top],
        y=[0, top],
        mode="lines",
        line={"color": GREEN, "width": 1.5, "dash": "dash"},
        hoverinfo="skip",
    )
    # Servers round down to their own block; what that costs is no lost prefix.
    full = int((lost > np.maximum(0.01 * findable, 64)).sum())
    summary = (
        f"{counted(len(shown), 'request')}; {whole(full)} of them found over 1 % (and over 64 "
        f"tokens) less than an endless cache would have."
    ) + drawn_of(len(picked), len(shown), "those that lost most")
    drawing = figure(
        line,
        dots,
        xaxis=axis("theoretical, trace's tokens"),
        yaxis=axis("reported, server's tokens"),
    )
    return Chart("achieved", title, caption, summary, drawing, height=420)
