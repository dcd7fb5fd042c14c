"""The page's numbers, each with its unit, its meaning and where it is from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from agentx.report import units
from agentx.report.charts.cache import cache_tokens
from agentx.report.facts import at, count, number
from agentx.report.view import RunView

Source: TypeAlias = Literal["measured", "reported", "computed", "assumed"]
"""Where a number is from: our clock; the server; our arithmetic; a convention, for want of any."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number: as shown, as stored, what it means, where it is from."""

    label: str
    shown: str
    value: float | None
    meaning: str
    source: Source
    key: str
    """Its place in run.json's aggregate, or a name of ours."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One latency's row: p50, p90, p99, mean."""

    label: str
    meaning: str
    source: Source
    figures: tuple[Figure, ...]


_TTFT = "Time to first token: from sending a request to the first event that carries output."
_TPOT = (
    "Time per output token: from the first output event to the last, divided by the tokens that "
    "came after the first event."
)
_ITL = "Inter-token latency: the gap between two consecutive output events of one answer."
_E2E = "End to end: from sending a request to the end of its answer."
_OWN = "As the simulated engine itself reports it, by its own clock, without network and client."
_THEORETICAL = (
    "Share of all prompt tokens that an endless cache would have had, in the order in which the "
    "requests were sent, in the trace's tokens."
)
_REPORTED = "Share of all prompt tokens that the server said it had in its cache (its usage)."
_METRICS = "The same by the counters of the server's /metrics, over the whole run."


def tells_own_times(run: RunView) -> bool:
    """Whether the server itself reported how long it took: the simulated engine does."""
    return number(run.aggregate, "engine", "ttft_ms", "p50") is not None


def headline(run: RunView, *, own_times: bool) -> tuple[Figure, ...]:
    """The few numbers that stand on top; with `own_times`, those by the engine's clock among them.

    Runs that are compared need the same ones, so that the caller decides.
    """
    of = _figure_of(run)

    def own(latency: str, word: str, key: str) -> tuple[Figure, ...]:
        label = f"{latency} by the engine, {word}"
        path = ("engine", f"{latency.lower()}_ms", key)
        return (of(label, units.duration, _OWN, "reported", *path),) if own_times else ()

    ok, failed = count(run.aggregate, "requests", "ok"), count(run.aggregate, "requests", "failed")
    total = None if ok is None or failed is None else ok + failed
    return (
        of("Hit rate, reported", units.percent, _REPORTED, "reported", "hit_rate", "reported"),
        of(
            "Hit rate, theoretical",
            units.percent,
            _THEORETICAL,
            "computed",
            "hit_rate",
            "theoretical",
        ),
        of("TTFT, median", units.duration, _TTFT, "measured", "ttft_ms", "p50"),
        of("TTFT, p99", units.duration, _TTFT, "measured", "ttft_ms", "p99"),
        *own("TTFT", "median", "p50"),
        *own("TTFT", "p99", "p99"),
        of("TPOT, median", units.duration, _TPOT, _tpot_source(run), "tpot_ms", "p50"),
        *own("TPOT", "median", "p50"),
        of(
            "Output tokens",
            units.per_second,
            "Tokens of all answers together, divided by the run's length.",
            "computed",
            "throughput",
            "output_tokens_per_s",
        ),
        Figure(
            "Requests answered",
            f"{units.whole(ok)} of {units.whole(total)}",
            ok,
            "Requests whose answer came whole, of all that were sent.",
            "measured",
            "requests.ok",
        ),
    )


def latencies(run: RunView) -> tuple[Spread, ...]:
    """TTFT, TPOT, ITL and E2E, each with p50, p90, p99 and mean."""
    of = _figure_of(run)
    assumed, answers = _tpot_assumed(run)
    note = (
        f" In {assumed:,} of {answers:,} answers the tokens of the first event are not known and "
        "taken as 1 (assumed)."
        if assumed
        else ""
    )
    kinds: tuple[tuple[str, str, Source, *tuple[str, ...]], ...] = (
        ("TTFT", _TTFT, "measured", "ttft_ms"),
        ("TPOT", _TPOT + note, _tpot_source(run), "tpot_ms"),
        ("ITL", _ITL, "measured", "itl_ms"),
        ("E2E", _E2E, "measured", "e2e_ms"),
        ("TTFT by the engine", f"{_TTFT} {_OWN}", "reported", "engine", "ttft_ms"),
        ("TPOT by the engine", f"{_TPOT} {_OWN}", "reported", "engine", "tpot_ms"),
        ("E2E by the engine", f"{_E2E} {_OWN}", "reported", "engine", "e2e_ms"),
    )
    spreads = [
        Spread(
            label,
            meaning,
            source,
            tuple(
                of(name, units.duration, meaning, source, *path, name)
                for name in ("p50", "p90", "p99", "mean")
            ),
        )
        for label, meaning, source, *path in kinds
    ]
    # The server's own times: only a simulated engine tells them.
    return tuple(s for s in spreads if s.source != "reported" or s.figures[0].value is not None)


def _tpot_assumed(run: RunView) -> tuple[int, int]:
    """Answers whose TPOT takes the first event's tokens as 1, and all answers that have a TPOT."""
    known = run.rows.answered & np.isfinite(run.rows.tpot_ms)
    return int((run.rows.tpot_assumed & known).sum()), int(known.sum())


def _tpot_source(run: RunView) -> Source:
    return "assumed" if _tpot_assumed(run)[0] else "measured"


def marks(run: RunView) -> dict[str, tuple[float, ...] | None]:
    """p50, p90 and p99 of each latency, by its chart's key; None where one is unknown."""
    found: dict[str, tuple[float, ...] | None] = {}
    for key in ("ttft", "tpot", "itl", "e2e"):
        values = [number(run.aggregate, f"{key}_ms", name) for name in ("p50", "p90", "p99")]
        known = tuple(value for value in values if value is not None)
        found[key] = known if len(known) == 3 else None
    return found


def throughput(run: RunView) -> tuple[Figure, ...]:
    """Requests and tokens a second, over the run's length."""
    of = _figure_of(run)
    return tuple(
        of(label, units.per_second, meaning, "computed", "throughput", key)
        for label, meaning, key in (
            ("Requests", "Answered requests, divided by the run's length.", "requests_per_s"),
            ("Input tokens", "Tokens of their prompts, cached ones too.", "input_tokens_per_s"),
            ("Output tokens", "Tokens of their answers.", "output_tokens_per_s"),
        )
    )


def cache(run: RunView) -> tuple[Figure, ...]:
    """Hit rates by their three sources, and the tokens behind them."""
    of = _figure_of(run)
    sums = cache_tokens(run.rows)

    def sum_of(label: str, value: float | None, meaning: str, source: Source, key: str) -> Figure:
        return Figure(label, units.whole(value), value, meaning, source, key)

    return (
        of("Theoretical", units.percent, _THEORETICAL, "computed", "hit_rate", "theoretical"),
        of("Reported by usage", units.percent, _REPORTED, "reported", "hit_rate", "reported"),
        of("Reported by /metrics", units.percent, _METRICS, "reported", "hit_rate", "metrics"),
        of(
            "Theoretical, upper bound",
            units.percent,
            "The same if the server's blocks are finer than the trace's and reach into a prompt's "
            "partial last block.",
            "computed",
            "hit_rate",
            "theoretical_upper",
        ),
        of(
            "Theoretical, in the server's tokens",
            units.percent,
            "The same in the tokens that the server should count, by the probes before the run.",
            "computed",
            "hit_rate",
            "theoretical_server",
        ),
        sum_of(
            "Prompt tokens, trace",
            sums.trace_prompt if sums else None,
            "What the trace says that was sent, over the requests that have all counts.",
            "computed",
            "tokens.trace_prompt",
        ),
        sum_of(
            "Prompt tokens, server",
            sums.server_prompt if sums else None,
            "The same prompts as the server counted them.",
            "reported",
            "tokens.server_prompt",
        ),
        sum_of(
            "Theoretical hits",
            sums.theoretical if sums else None,
            "Tokens that an endless cache would have had, whole blocks of the trace only.",
            "computed",
            "tokens.theoretical",
        ),
        sum_of(
            "Reported hits",
            sums.reported if sums else None,
            "Tokens that the server said it had in its cache.",
            "reported",
            "tokens.reported",
        ),
    )


def client(run: RunView) -> tuple[Figure, ...]:
    """Whether the load generator kept up."""
    of = _figure_of(run)
    return (
        of(
            "Send lag, p99",
            units.duration,
            "How late requests left, against the time at which they were due (wall time).",
            "measured",
            "client",
            "send_lag_ms",
        ),
        of(
            "Loop lag, p99",
            units.duration,
            "How late the client's own clockwork ran (wall time).",
            "measured",
            "client",
            "loop_lag_ms",
        ),
        of(
            "Processor time",
            lambda value: units.UNKNOWN if value is None else f"{units.short(value)} s",
            "What the client used, over the whole run.",
            "measured",
            "client",
            "cpu_s",
        ),
        of(
            "Peak memory",
            units.megabytes,
            "The client's largest resident memory.",
            "measured",
            "client",
            "peak_rss_mb",
        ),
        Figure(
            "Client-bound",
            units.yes_no(at(run.aggregate, "client", "bound")),
            None,
            "Whether the client was too slow for the load, so that its own lag is in the numbers.",
            "computed",
            "client.bound",
        ),
    )


def _figure_of(run: RunView) -> Callable[..., Figure]:
    def of(
        label: str,
        shown: Callable[[float | None], str],
        meaning: str,
        source: Source,
        *path: str,
    ) -> Figure:
        value = number(run.aggregate, *path)
        return Figure(label, shown(value), value, meaning, source, ".".join(path))

    return of
