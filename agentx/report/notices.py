"""What a reader must know before the numbers: partial, scaled, client-bound, failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentx.report import units
from agentx.report.facts import at, number, text
from agentx.report.numbers import tells_own_times
from agentx.report.view import RunView


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence or two above the numbers. `mark` is its word in a table."""

    level: Literal["warning", "note"]
    mark: str
    title: str
    words: str


_VERDICTS = {
    "not-probed": (
        "Not probed",
        "No short request measured how the server counts before the load: its token counts may "
        "differ from the trace's.",
    ),
    "words-adjusted": (
        "Words adjusted",
        "The server does not count one token a word. Blocks have more or fewer words, so that its "
        "counts meet the trace's on average; single blocks vary.",
    ),
    "metrics-reset": (
        "Metrics reset",
        "The server's counters fell during the run (it was started anew), so that no hit rate "
        "comes from them.",
    ),
}
"""Verdicts of run.json that have nothing else to show them."""


def notices(run: RunView) -> tuple[Notice, ...]:
    """What bears on every number below, the gravest first."""
    return (*_warnings(run), *_notes(run))


def _warnings(run: RunView) -> Iterator[Notice]:
    rows = run.rows
    answered, failed = bool(rows.answered.any()), int(rows.failed.sum())
    if not answered:
        words = "There is nothing to measure latency or hit rates from."
        if failed:
            words += f" All {failed:,} requests failed: see Failed requests."
        yield Notice("warning", "none answered", "No request was answered", words)
    if at(run.document, "complete") is not True:
        ended = units.counted(len(rows), "request")
        words = f"{_ended(run)} Everything here is over the {ended} that had ended."
        yield Notice("warning", "partial", "Partial run", words)
    if at(run.aggregate, "client", "bound") is True:
        words = (
            "The load generator could not keep up: part of the latencies is its own. See Client "
            "below; use fewer sessions, a faster machine, or a slower engine clock."
        )
        yield Notice("warning", "client-bound", "Client-bound", words)
    if (beyond := number(run.aggregate, "hits_beyond_possible", "requests")) is not None and beyond:
        tokens = number(run.aggregate, "hits_beyond_possible", "tokens")
        words = (
            f"{units.counted(int(beyond), 'request')} reported {units.whole(tokens)} cached tokens "
            "that had not been sent before in this run, more than rounding explains: the cache was "
            "warm from an earlier run, somebody else uses the server, or it counts wrongly. The "
            "reported hit rate is too high, and what was lost is hidden."
        )
        yield Notice("warning", "more hits than possible", "More hits than possible", words)
    if failed and answered:
        title = f"{failed:,} of {len(rows):,} requests failed"
        words = "Latencies and hit rates are over the answered ones only."
        yield Notice("warning", f"{failed:,} failed", title, words)


def _ended(run: RunView) -> str:
    if (by := text(run.document, "stopped_by")) is not None:
        return f"It was stopped by {by} before its end."
    if text(run.document, "state") == "running":
        return "It is still going on, or was killed."
    return "It was stopped before its end."


def _notes(run: RunView) -> Iterator[Notice]:
    if (scale := run.time_scale) is not None:
        words = (
            f"The engine's clock ran {scale:g} times faster than life. All times here and on the "
            f"charts' axes are engine time, wall time × {scale:g}, but for the client's lags."
        )
        if (error := number(run.aggregate, "client", "error_ms")) is not None:
            words += (
                " What client and network add is multiplied too: the client's p99 lag alone is an "
                f"error of {units.duration(error)}."
            )
        words += (
            " Most of all it makes TPOT and ITL too small: tokens that a late client takes in one "
            "piece seem to have come at once."
        )
        if tells_own_times(run):
            words += " The engine's own times, beside ours, are free of both."
        yield Notice("note", "scaled", "Scaled", words)
    given = at(run.document, "verdicts")
    for verdict, (title, words) in _VERDICTS.items():
        if isinstance(given, list) and verdict in given:
            yield Notice("note", verdict, title, words)
