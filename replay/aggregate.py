"""The figures of a whole run, from its rows: exact percentiles, rates, shares. Pure.

Times are engine time: wall time × the clock's speed where a simulated engine's ran faster than
life. A figure that cannot be known is None.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from agentx.replay.counting import Counting
from agentx.replay.metrics import CacheCounters
from agentx.replay.possible import may_have_warmed, most_hits

SEND_LAG_BOUND_MS = 50.0
"""A run whose p99 send lag is above this is client-bound: its load is not what was asked for."""

CPU_BOUND = 0.9
"""So is one in which the client used more than this share of a core."""

Figures: TypeAlias = dict[str, float | None]


def figures(values: ArrayLike, scale: float = 1.0) -> Figures:
    """p50, p90, p99 (linear between ranks) and mean; None each where there is no value."""
    known = np.asarray(values, dtype=np.float64)
    if not known.size:
        return {"p50": None, "p90": None, "p99": None, "mean": None}
    p50, p90, p99 = np.percentile(known, [50, 90, 99]) * scale
    mean = known.mean() * scale
    return {
        name: round(float(value), 4)
        for name, value in (("p50", p50), ("p90", p90), ("p99", p99), ("mean", mean))
    }


@dataclass(frozen=True, slots=True)
class ClientState:
    """What the client says of itself, over the load."""

    loop_lags_ms: ArrayLike
    cpu_s: float
    peak_rss_mb: float


@dataclass(slots=True)
class Tokens:
    """Sums over the answered requests."""

    context: int = 0
    """The trace's count of the prompts."""
    theoretical: int = 0
    theoretical_upper: int = 0
    server_context: float = 0.0
    """What the server should count for them, by the probes."""
    server_theoretical: float = 0.0
    prompt: int = 0
    """The server's count, where it reports cached tokens too."""
    cached: int = 0
    input: int = 0
    """The server's count of all prompts."""
    output: int = 0
    asked: int = 0


@dataclass(slots=True)
class Surplus:
    """Cached tokens reported beyond what there can be."""

    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Aggregator:
    """Takes the rows of a run, one after the other."""

    counting: Counting | None = None
    """How the server counts, for the theoretical rate in its tokens."""
    block_size: int | None = None
    """The trace's, to judge whether more hits are reported than there can be."""
    ok: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    tokens: Tokens = field(default_factory=Tokens)
    no_cached: int = 0
    """Answered requests without reported cached tokens."""
    no_usage: int = 0
    """Answered requests without reported prompt or output tokens."""
    no_theoretical: int = 0
    """Answered requests whose theoretical hits were not worked out."""
    assumed: int = 0
    """Answered requests whose TPOT rests on an assumption."""
    judged: int = 0
    """Answered requests of which it is known how many hits there can be at most."""
    surplus: Surplus = field(default_factory=Surplus)
    unsure: int = 0
    """Failed requests that may be in the server's cache, so that nothing is impossible."""
    reconnects: int = 0
    first_sent: float | None = None
    last_end: float | None = None
    _ttft: array[float] = field(default_factory=lambda: array("d"))
    _tpot: array[float] = field(default_factory=lambda: array("d"))
    _itl: array[float] = field(default_factory=lambda: array("d"))
    _e2e: array[float] = field(default_factory=lambda: array("d"))
    _own_ttft: array[float] = field(default_factory=lambda: array("d"))
    _own_tpot: array[float] = field(default_factory=lambda: array("d"))
    _own_e2e: array[float] = field(default_factory=lambda: array("d"))
    _lag: array[float] = field(default_factory=lambda: array("d"))

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a row of requests.parquet."""
        sent, end = row["sent_ms"], row["end_ms"]
        # A connection that had to be made is no slowness of the client.
        self._lag.append(sent - row["intended_ms"] - row["connect_ms"])
        self.first_sent = sent if self.first_sent is None else min(self.first_sent, sent)
        if end is not None:
            self.last_end = end if self.last_end is None else max(self.last_end, end)
        self.reconnects += row["reconnects"] or 0
        if row["error"] is not None:
            self.errors[row["error"]] += 1
            self.unsure += may_have_warmed(row)
            return
        self.ok += 1
        self._add_times(row)
        self._add_tokens(row)

    def _add_times(self, row: Mapping[str, Any]) -> None:
        for name, values in (
            ("ttft_ms", self._ttft),
            ("tpot_ms", self._tpot),
            ("e2e_ms", self._e2e),
            ("engine_ttft_ms", self._own_ttft),
            ("engine_tpot_ms", self._own_tpot),
            ("engine_e2e_ms", self._own_e2e),
        ):
            if row[name] is not None:
                values.append(row[name])
        events = row["event_ms"]
        self._itl.extend(later - earlier for earlier, later in pairwise(events))
        self.assumed += row["tpot_assumed"] is True

    def _add_tokens(self, row: Mapping[str, Any]) -> None:
        sums = self.tokens
        sums.context += row["context_tokens"]
        hit = row["theoretical_tokens"] or 0
        self.no_theoretical += row["theoretical_tokens"] is None
        sums.theoretical += hit
        sums.theoretical_upper += row["theoretical_upper_tokens"] or 0
        sums.asked += row["asked_tokens"]
        if row["prompt_tokens"] is None or row["output_tokens"] is None:
            self.no_usage += 1
        sums.input += row["prompt_tokens"] or 0
        sums.output += row["output_tokens"] or 0
        if row["cached_tokens"] is None or row["prompt_tokens"] is None:
            self.no_cached += 1
        else:
            sums.prompt += row["prompt_tokens"]
            sums.cached += row["cached_tokens"]
            self._judge(row)
        if self.counting is not None:
            count = self.counting
            whole = count.overhead + count.per_message * row["messages"]
            whole += count.slope * row["words"]
            sums.server_context += whole
            if hit:
                seen = count.per_message * row["kept_messages"]
                seen += count.slope * count.words_per_token * hit
                sums.server_theoretical += min(whole, seen)

    def _judge(self, row: Mapping[str, Any]) -> None:
        if self.block_size is None:
            return
        most = most_hits(row, self.counting, self.block_size)
        if most is None:
            return
        self.judged += 1
        if (more := row["cached_tokens"] - most) > 0:
            self.surplus.requests += 1
            self.surplus.tokens += math.ceil(more)

    def document(
        self, *, scaled: float | None, counters: CacheCounters | None, client: ClientState
    ) -> dict[str, Any]:
        """The aggregate of run.json. `scaled`: how many times faster than life the clock ran."""
        scale = scaled or 1.0
        return {
            "requests": {"ok": self.ok, "failed": self.errors.total()},
            "errors": dict(sorted(self.errors.items())),
            "hit_rate": self._hit_rates(counters),
            "hits_beyond_possible": asdict(self.surplus)
            if self.judged and not self.unsure
            else None,
            "ttft_ms": figures(self._ttft, scale),
            "tpot_ms": figures(self._tpot, scale),
            "itl_ms": figures(self._itl, scale),
            "e2e_ms": figures(self._e2e, scale),
            "tpot_assumed": self._assumed_share(),
            "throughput": self._throughput(scale),
            "tokens": {
                "context": self.tokens.context,
                "theoretical": None if self.no_theoretical else self.tokens.theoretical,
                "input": self.tokens.input if self._usage_known else None,
                "cached": self.tokens.cached if self._cached_known else None,
                "output": self.tokens.output if self._usage_known else None,
                "asked": self.tokens.asked,
            },
            "duration_s": self._duration_s(scale),
            "scaled": scaled,
            "engine": self._own_times(),
            "client": self._client(client, scaled),
        }

    @property
    def _usage_known(self) -> bool:
        return self.ok > 0 and not self.no_usage

    @property
    def _cached_known(self) -> bool:
        return self.no_cached < self.ok

    def _assumed_share(self) -> float | None:
        return round(self.assumed / len(self._tpot), 6) if self._tpot else None

    def _hit_rates(self, counters: CacheCounters | None) -> dict[str, float | None]:
        sums = self.tokens
        known = not self.no_theoretical
        return {
            "theoretical": _share(sums.theoretical, sums.context) if known else None,
            "theoretical_upper": _share(sums.theoretical_upper, sums.context) if known else None,
            # Without probes no server's count is known, and both of these are 0.
            "theoretical_server": _share(sums.server_theoretical, sums.server_context)
            if known
            else None,
            "reported": _share(sums.cached, sums.prompt),
            "metrics": None if counters is None else _share(counters.hits, counters.queries),
        }

    def _duration_s(self, scale: float) -> float | None:
        if self.first_sent is None or self.last_end is None:
            return None
        return round((self.last_end - self.first_sent) / 1e3 * scale, 6)

    def _throughput(self, scale: float) -> dict[str, float | None]:
        duration = self._duration_s(scale)

        def rate(amount: int, known: bool) -> float | None:
            return round(amount / duration, 4) if duration and known else None

        return {
            "requests_per_s": rate(self.ok, True),
            "input_tokens_per_s": rate(self.tokens.input, self._usage_known),
            "output_tokens_per_s": rate(self.tokens.output, self._usage_known),
        }

    def _own_times(self) -> dict[str, Figures] | None:
        """What the server itself measured, on its own clock: not scaled."""
        if not self._own_ttft:
            return None
        return {
            "ttft_ms": figures(self._own_ttft),
            "tpot_ms": figures(self._own_tpot),
            "e2e_ms": figures(self._own_e2e),
        }

    def _client(self, client: ClientState, scaled: float | None) -> dict[str, Any]:
        lag = figures(self._lag)["p99"]
        loop_lag = figures(client.loop_lags_ms)["p99"]
        busy = False
        if self.first_sent is not None and self.last_end is not None:
            busy = client.cpu_s > CPU_BOUND * max(self.last_end - self.first_sent, 1.0) / 1e3
        worst = max((value for value in (lag, loop_lag) if value is not None), default=None)
        return {
            "send_lag_ms": lag,
            "loop_lag_ms": loop_lag,
            "cpu_s": round(client.cpu_s, 3),
            "peak_rss_mb": round(client.peak_rss_mb, 1),
            "bound": busy or (lag is not None and lag > SEND_LAG_BOUND_MS),
            "error_ms": round(worst * scaled, 3) if scaled and worst is not None else None,
            "reconnects": self.reconnects,
        }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole > 0 else None
