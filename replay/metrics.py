"""Reads a server's `/metrics`: the series that its row of the table names, and nothing else. Pure.

A hit rate comes from counters, before against after, never from a server's own momentary ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from agentx.replay.servers import Series, Server

Reading: TypeAlias = Mapping[str, float]
"""Values by series key; a series that the server does not have is not in it."""

MAX_LINE = 4096


def read_metrics(page: bytes, server: Server) -> Reading:
    """The values of a server's series on a page; lines that are none are skipped."""
    labelled = [one for one in (*server.hits, *server.queries) if one.label is not None]
    sums: dict[str, list[float]] = {}
    for name, labels, value in _samples(page, server.names()):
        sums.setdefault(name, []).append(value)
        for series in labelled:
            if series.name == name and labels.get(series.label or "") == series.value:
                sums.setdefault(series.key, []).append(value)
    return {
        key: sum(values) / len(values) if key in server.means else sum(values)
        for key, values in sums.items()
    }


def _samples(page: bytes, names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    # A page of a large server has thousands of lines and the parser takes milliseconds for them,
    # so that only the lines that matter reach it.
    wanted = tuple(name.encode() for name in names)
    for line in page.split(b"\n"):
        if not line.startswith(wanted) or len(line) > MAX_LINE:
            continue
        try:
            families = list(text_string_to_metric_families(line.decode("utf-8", "replace") + "\n"))
        except (ValueError, KeyError, IndexError):
            continue
        for family in families:
            for sample in family.samples:
                if sample.name in names and math.isfinite(sample.value):
                    yield sample.name, sample.labels, float(sample.value)


@dataclass(frozen=True, slots=True)
class CacheCounters:
    """What the prefix cache's counters grew by during the load."""

    hits: float
    queries: float


def cache_counters(server: Server, before: Reading, after: Reading) -> CacheCounters | None:
    """Growth of hits and queries between two readings; None where it cannot be known.

    It cannot where the server has no such counters, where one of them fell (the server was started
    anew) or more were hit than looked up, or where hits stayed 0 because nothing is counted.
    """
    if not server.hits or not before:
        return None
    if server.witness is not None and not _growth((server.witness,), before, after):
        return None
    hits = _growth(server.hits, before, after)
    queries = _growth(server.queries, before, after)
    if hits is None or queries is None or hits > queries:
        return None
    return CacheCounters(hits, queries)


def was_reset(server: Server, before: Reading, after: Reading) -> bool:
    """Whether a cache counter fell: the server was started anew during the load."""
    return any(
        after[series.key] < before[series.key]
        for series in (*server.hits, *server.queries)
        if series.key in before and series.key in after
    )


def _growth(series: tuple[Series, ...], before: Reading, after: Reading) -> float | None:
    """Summed growth; a series that appeared in between began at 0."""
    total = 0.0
    for one in series:
        if one.key not in after:
            return None
        grown = after[one.key] - before.get(one.key, 0.0)
        if grown < 0:
            return None
        total += grown
    return total
