"""Distributions small enough to draw: exact quantiles, log histograms, thinned points.

Everything here is the same for the same input: nothing is drawn by lot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from agentx.report.rows import Floats, plausible

MAX_POINTS = 2500
"""Dots of one scatter chart; more neither show more nor open fast."""

_LOW, _HIGH, _A_DECADE = -3, 8, 100
"""The gap histogram's bins: 10^-3 to 10^8 ms, 100 a decade, so a value is known within 2.4 %."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Share of values at or below `at`, both rising."""

    at: Floats
    share: Floats
    values: int
    """How many values the curve stands for."""


def curve(values: Floats) -> Curve | None:
    """The distribution of values, exact at each drawn point; None where no value is known."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    # The tail gets as many points as the body: p99 is what people look for.
    shares = np.unique(np.concatenate([np.linspace(0, 1, 101), 1 - np.geomspace(0.1, 0.001, 60)]))
    return Curve(np.quantile(known, shares), shares, len(known))


def gaps_curve(batches: Iterable[pa.Array], time_scale: float = 1.0) -> Curve | None:
    """The distribution of gaps between consecutive events, of lists of event times in ms.

    One batch is in memory at a time: a large run has tens of millions of events.
    """
    counts = np.zeros((_HIGH - _LOW) * _A_DECADE, dtype=np.int64)
    for batch in batches:
        counts += _gap_counts(batch, time_scale)
    total = int(counts.sum())
    if not total:
        return None
    used = np.flatnonzero(counts)
    shares = np.cumsum(counts)[used] / total
    upper = 10.0 ** (_LOW + (used + 1) / _A_DECADE)
    # It begins with nothing at the lower edge of the first bin.
    lowest = 10.0 ** (_LOW + used[0] / _A_DECADE)
    return Curve(np.concatenate([[lowest], upper]), np.concatenate([[0.0], shares]), total)


def _gap_counts(lists: pa.Array, time_scale: float) -> NDArray[np.int64]:
    bins = (_HIGH - _LOW) * _A_DECADE
    events = lists.flatten().cast(pa.float64()).fill_null(np.nan)
    times = plausible(np.asarray(events, dtype=np.float64))
    owners = np.asarray(pc.list_parent_indices(lists))
    gaps = np.diff(times)[np.diff(owners) == 0] * time_scale
    gaps = gaps[np.isfinite(gaps) & (gaps >= 0)]
    exponents = np.log10(np.maximum(gaps, 10.0**_LOW))
    places = np.clip(((exponents - _LOW) * _A_DECADE).astype(np.int64), 0, bins - 1)
    return np.bincount(places, minlength=bins).astype(np.int64)


def thin(heights: Floats, limit: int = MAX_POINTS) -> NDArray[np.int64]:
    """Which places to draw, in order: the highest tenth of `limit`, and the others evenly."""
    places = np.arange(len(heights), dtype=np.int64)
    if len(places) <= limit:
        return places
    top = np.argsort(-np.nan_to_num(heights), kind="stable")[: limit // 10]
    rest = np.setdiff1d(places, top)
    evenly = rest[np.linspace(0, len(rest) - 1, limit - len(top)).astype(np.int64)]
    return np.sort(np.concatenate([top, evenly]))


def nice_width(span: float, bins: int) -> float:
    """A width of 1, 2 or 5 × a power of ten that cuts `span` into at most `bins` pieces."""
    if span <= 0:
        return 1.0
    raw = span / bins
    power = 10.0 ** np.floor(np.log10(raw))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9)))
