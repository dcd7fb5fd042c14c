"""What an engine counted since it started: plain numbers of tokens, requests, engine seconds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

FinishReason: TypeAlias = Literal["stop", "length", "abort"]
"""Natural end, token limit, or given up by the client."""

_LATENCY_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)


class Histogram:
    """Counts of seconds by upper bound (inclusive), the last one without end."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = _LATENCY_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Tally:
    """Counters that only grow."""

    prefix_queries: int = 0
    """Prompt tokens looked up in the cache, once a request, when it first gets its blocks."""
    prefix_hits: int = 0
    """Of those, tokens found there."""
    prompt_tokens: int = 0
    """Prompts of requests that have got their first token."""
    generated_tokens: int = 0
    preemptions: int = 0
    finished: dict[FinishReason, int] = field(
        default_factory=lambda: {"stop": 0, "length": 0, "abort": 0}
    )
    ttft: Histogram = field(default_factory=Histogram)
    itl: Histogram = field(default_factory=Histogram)
    e2e: Histogram = field(default_factory=Histogram)
