"""The load of one run: sent, watched, kept row by row, and worked out at the end."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentx.datasets.parquet.reader import Dataset
from agentx.replay.aggregate import Aggregator, ClientState
from agentx.replay.driver import Driver, Load, Preparation
from agentx.replay.metrics import cache_counters, was_reset
from agentx.replay.options import Options
from agentx.replay.plan import Cut, assign_lanes
from agentx.replay.probe import Probe, assumed_form
from agentx.replay.runs import RunWriter, journal_rows
from agentx.replay.session import Think
from agentx.replay.stopping import stopped_by_signals
from agentx.replay.target import Target
from agentx.replay.telemetry import Telemetry, peak_rss_mb
from agentx.replay.theoretical import Hit, Key, taken, theoretical_hits
from agentx.replay.transport import HttpTransport


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, for whoever shows it."""

    requests: int
    failed: int
    planned: int
    """Requests of the data set, or `max_requests`; what is cut is among them."""


class RecordedLoad:
    """The load of one run, and what is worked out from it."""

    def __init__(
        self,
        dataset: Dataset,
        options: Options,
        target: Target,
        probed: Probe | None,
        transport: HttpTransport,
        writer: RunWriter,
        think: Think,
        *,
        say: Callable[[str], None],
        show: Callable[[Progress], None],
    ) -> None:
        self._dataset = dataset
        self._options = options
        self._target = target
        self._writer = writer
        self._say = say
        self._show = show
        self._counting = probed.counting if probed else None
        self._progress = Progress(0, 0, options.max_requests or dataset.info.counts.requests)
        self._telemetry = Telemetry(
            transport, target.endpoint.root + "/metrics", target.server, writer.telemetry.append
        )
        lanes = assign_lanes([entry.requests for entry in dataset.entries], options.sessions)
        load = Load(
            lanes=lanes,
            think=think,
            form=probed.form if probed else assumed_form(target),
            exact_length=bool(probed and probed.exact_length and probed.form.forced),
            max_requests=options.max_requests,
        )
        prepare = Preparation(
            load=dataset.load,
            block_size=dataset.info.block_size,
            salt=str(options.seed).encode(),
            words_per_token=self._counting.words_per_token if self._counting else 1.0,
            max_context=options.max_context,
        )
        self._driver = Driver(load, prepare, transport, self._keep)

    async def run(self) -> signal.Signals | None:
        """Send the load; returns the signal that stopped it, if one did."""
        gc.collect()
        gc.freeze()
        origin = await self._telemetry.start()
        try:
            async with stopped_by_signals(self._driver, self._say) as received:
                await self._driver.run(origin)
        finally:
            await self._telemetry.stop()
            gc.unfreeze()
        return received[0] if received else None

    def _keep(self, row: Mapping[str, Any]) -> None:
        self._writer.requests.append(row)
        done = self._progress
        failed = done.failed + (row["error"] is not None)
        self._progress = Progress(done.requests + 1, failed, done.planned)
        self._show(self._progress)

    def finish(self, scaled: float | None, stopped_by: signal.Signals | None) -> dict[str, Any]:
        """Work out the figures, write the tables and run.json, which is returned."""
        hits = self._hits()
        aggregator = Aggregator(counting=self._counting, block_size=self._dataset.info.block_size)

        def complete(row: Mapping[str, Any]) -> Mapping[str, Any]:
            hit = hits.get((row["session_id"], row["request"]))
            full = {
                **row,
                "theoretical_tokens": None if hit is None else hit.blocks,
                "theoretical_upper_tokens": None if hit is None else hit.upper,
            }
            aggregator.add(full)
            return full

        self._writer.write_tables(complete)
        server, telemetry = self._target.server, self._telemetry
        aggregate = aggregator.document(
            scaled=scaled,
            counters=cache_counters(server, telemetry.before, telemetry.after),
            client=ClientState(telemetry.lags_ms, telemetry.cpu_s, peak_rss_mb()),
        )
        cut = _sum_cuts(self._driver.cuts)
        aggregate["cut"] = asdict(cut)
        aggregate["sessions"] = {
            "planned": len(self._dataset),
            "begun": len(self._driver.cuts),
            "ended": self._driver.sessions_ended,
        }
        return self._writer.finish(
            {
                "complete": stopped_by is None,
                "stopped_by": None if stopped_by is None else stopped_by.name,
                "verdicts": self._verdicts(aggregate, stopped_by),
                "aggregate": aggregate,
            }
        )

    def _hits(self) -> dict[Key, Hit]:
        positions = {entry.session_id: at for at, entry in enumerate(self._dataset.entries)}
        rows = (
            (row["session_id"], row["request"], row["sent_ms"], row["status"])
            for row in journal_rows(self._writer.requests.path)
        )
        return theoretical_hits(
            taken(rows),
            lambda session_id: self._dataset.load(positions[session_id]),
            self._dataset.info.block_size,
        )

    def _verdicts(
        self, aggregate: Mapping[str, Any], stopped_by: signal.Signals | None
    ) -> list[str]:
        """What a reader must know before the numbers: short names, documented in docs/run.md."""
        telemetry, counting = self._telemetry, self._counting
        surplus = aggregate["hits_beyond_possible"]
        found = {
            "partial": stopped_by is not None,
            "client-bound": aggregate["client"]["bound"],
            "none-answered": aggregate["requests"]["ok"] == 0,
            "more-hits-than-possible": surplus is not None and surplus["requests"] > 0,
            "not-probed": not self._options.preflight,
            "words-adjusted": counting is not None and counting.words_per_token != 1,
            "metrics-reset": was_reset(self._target.server, telemetry.before, telemetry.after),
        }
        return [name for name, holds in found.items() if holds]


def _sum_cuts(cuts: list[Cut]) -> Cut:
    totals: Counter[str] = Counter()
    for cut in cuts:
        totals.update(asdict(cut))
    return Cut(**totals)
