"""One run as the page sees it: what it says about itself, its requests, its telemetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentx.replay.aggregate import Aggregator, ClientState
from agentx.replay.errors import ReplayError
from agentx.replay.runs import Run, open_run
from agentx.report.charts.telemetry import Series, series_of
from agentx.report.distribution import Curve, gaps_curve
from agentx.report.facts import at, number
from agentx.report.rows import Rows, event_lists, rows_of


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything that a page needs of one run; nothing is read after this."""

    name: str
    document: Mapping[str, Any]
    """run.json."""
    rows: Rows
    gaps: Curve | None
    """The distribution of ITL."""
    telemetry: Series

    @property
    def aggregate(self) -> Any:
        """The figures of the whole run, as `agentx replay --json` prints them."""
        return at(self.document, "aggregate")

    @property
    def time_scale(self) -> float | None:
        """How many times faster than life the engine's clock ran; None: a real clock."""
        return time_scale(self.document)


def load_runs(folders: Sequence[Path]) -> tuple[RunView, ...]:
    """Read runs, and name each by its folder, or by its whole path where two would be the same.

    Raises:
        ReplayError: one is none, of a newer version, or damaged.
    """
    names = [folder.resolve().name for folder in folders]
    return tuple(
        view(open_run(folder), name if names.count(name) == 1 else str(folder))
        for folder, name in zip(folders, names, strict=True)
    )


def view(run: Run, name: str) -> RunView:
    """A run that was read, worked out for the page.

    Raises:
        ReplayError: a row of a run that was killed lacks what every row has.
    """
    document = dict(run.document)
    scale = time_scale(document) or 1.0
    if run.state == "journal":
        document["aggregate"] = _aggregate(run, scale)
    return RunView(
        name,
        document,
        rows_of(run.requests, scale),
        gaps_curve(event_lists(run.requests), scale),
        series_of(run.telemetry, scale),
    )


def time_scale(document: Mapping[str, Any]) -> float | None:
    """How many times faster than life a run's clock ran, as its run.json says."""
    scale = number(document, "scaled")
    return scale if scale is not None and scale > 0 else None


def _aggregate(run: Run, scale: float) -> dict[str, Any]:
    """The figures of a run that did not live to write them, but for its client's state."""
    aggregator = Aggregator()
    try:
        for batch in run.requests.to_batches():
            for row in batch.to_pylist():
                aggregator.add(row)
    except (TypeError, KeyError) as error:
        raise ReplayError(f"{run.folder} is damaged: a request lacks a value ({error})") from None
    unknown = ClientState((), 0.0, 0.0)
    figures = aggregator.document(
        scaled=scale if scale != 1.0 else None, counters=None, client=unknown
    )
    figures["client"] = {"send_lag_ms": figures["client"]["send_lag_ms"]}
    return figures
