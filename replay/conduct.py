"""One replay from its options to its run folder: engine, preflight, load, figures."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agentx import __version__
from agentx.datasets.parquet.reader import Dataset
from agentx.replay.aggregate import Aggregator, ClientState
from agentx.replay.driver import Driver, Load, Preparation
from agentx.replay.endpoint import parse_url
from agentx.replay.engine_process import embedded_engine
from agentx.replay.errors import ReplayError
from agentx.replay.metrics import cache_counters, was_reset
from agentx.replay.plan import Cut, assign_lanes
from agentx.replay.probe import Probe, assumed_form, probe
from agentx.replay.runs import RunWriter, exists, journal_rows
from agentx.replay.session import Think
from agentx.replay.target import Target, find_target
from agentx.replay.telemetry import Telemetry, peak_rss_mb
from agentx.replay.theoretical import Hit, Key, taken, theoretical_hits
from agentx.replay.transport import HttpTransport

PROBE_STALL_S = 60.0
"""A probe is a few hundred tokens: a server that needs longer than this for one has stalled."""

GRACE_S = 5.0
"""How long what is in flight may still take once a run is stopped."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user asks for."""

    url: str | None = None
    """None: the embedded engine."""
    model: str | None = None
    sessions: int = 1
    max_requests: int | None = None
    think: str = "recorded"
    max_context: int | None = None
    kv_tokens: int | None = None
    engine_speed: float | None = None
    seed: int = 0
    preflight: bool = True
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, for whoever shows it."""

    requests: int
    failed: int
    planned: int
    """Requests of the data set, or `max_requests`; what is cut is among them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a replay."""

    folder: Path
    document: Mapping[str, Any]
    """run.json."""
    stopped_by: signal.Signals | None


async def conduct(
    dataset: Dataset,
    folder: Path,
    options: Options,
    *,
    say: Callable[[str], None],
    show: Callable[[Progress], None],
) -> Outcome:
    """Replay a data set into a new run folder.

    `say` takes sentences for a person, `show` how far the run is, often.

    Raises:
        ReplayError: the endpoint cannot serve the run (then there is no run folder), or the folder
            is there already.
        DatasetError: a session cannot be read; the run holds what went before.
        OSError: the run cannot be written; what was written stays and can be read.
    """
    _check(options, folder)
    think = Think.parse(options.think)
    async with AsyncExitStack() as stack:
        url = options.url
        if url is None:
            url = await stack.enter_async_context(
                embedded_engine(kv_tokens=options.kv_tokens, speed=options.engine_speed)
            )
        target, probed = await _preflight(url, options, say)
        scaled = _scale(target, options)
        if scaled is not None:
            think = replace(think, speed=scaled)
        transport = await stack.enter_async_context(
            HttpTransport(
                target.endpoint.chat, stall_s=options.timeout_s, api_key=_api_key(options)
            )
        )
        started = datetime.now(UTC)
        head = _head(dataset, options, target, probed, scaled, started)
        with RunWriter(folder, head) as writer:
            replay = _Replay(dataset, options, target, probed, transport, writer, think, show)
            stopped_by = await replay.run()
            return Outcome(folder, replay.finish(scaled, stopped_by), stopped_by)


def _check(options: Options, folder: Path) -> None:
    if folder.exists():
        raise exists(folder)
    if options.url is not None and options.kv_tokens is not None:
        raise ReplayError(
            "--kv-tokens is the embedded engine's: leave out --url, or set the server's own cache"
        )


def _api_key(options: Options) -> str | None:
    return os.environ.get("OPENAI_API_KEY") if options.url is not None else None


def _scale(target: Target, options: Options) -> float | None:
    """How many times faster than life the server's clock runs; None where it is a real one."""
    asked, told = options.engine_speed, target.speed
    if options.url is not None and asked is not None and asked != (told or 1.0):
        what = "has a real clock" if told is None else f"runs at {told:g}"
        raise ReplayError(
            f"--engine-speed {asked:g} is the embedded engine's, and the server at "
            f"{target.endpoint.api} {what}: leave it out, a simulated engine tells its speed"
        )
    return told if told is not None and told != 1.0 else None


async def _preflight(
    url: str, options: Options, say: Callable[[str], None]
) -> tuple[Target, Probe | None]:
    endpoint = parse_url(url)
    stall_s = min(options.timeout_s, PROBE_STALL_S)
    async with HttpTransport(
        endpoint.chat, stall_s=stall_s, api_key=_api_key(options)
    ) as transport:
        target = await find_target(transport, endpoint, options.model)
        if target.listed is False:
            say(f"{target.endpoint.api} does not list model {target.model}; asking for it anyway.")
        limit, most = target.context_limit, options.max_context
        if limit is not None and (most is None or most > limit):
            say(
                f"The server takes {limit:,} tokens at most; longer requests will fail "
                "(--max-context ends an agent's line before them)."
            )
        if not options.preflight:
            return target, None
        transport.chat_url = target.endpoint.chat
        probed = await probe(transport, target, options.seed)
    for sentence in _findings(probed):
        say(sentence)
    return target, probed


def _findings(probed: Probe) -> Iterator[str]:
    if probed.counting is None:
        yield "The server reports no usage: one word is assumed to be one token."
    elif (ratio := probed.counting.words_per_token) != 1:
        yield (
            f"The server counts {probed.counting.slope:.3f} tokens a word: each token of the "
            f"trace is sent as {ratio:.3f} words, so that the mean holds and single blocks vary."
        )
    if not probed.exact_length:
        yield "The server does not keep to a forced output length: outputs may be shorter."
    if probed.counting is not None and not probed.cached_reported:
        yield "The server does not report cached tokens: the reported hit rate will be unknown."


def _head(
    dataset: Dataset,
    options: Options,
    target: Target,
    probed: Probe | None,
    scaled: float | None,
    started: datetime,
) -> dict[str, Any]:
    """What run.json says from the start."""
    return {
        "agentx_version": __version__,
        "started": started.isoformat(timespec="seconds"),
        "configuration": asdict(options),
        "seed": options.seed,
        "scaled": scaled,
        "dataset": {
            "name": dataset.folder.resolve().name,
            "sessions": len(dataset),
            "requests": dataset.info.counts.requests,
            "block_size": dataset.info.block_size,
            "hash_scope": dataset.info.hash_scope,
        },
        "endpoint": {
            "url": target.endpoint.api if options.url is not None else None,
            "embedded": options.url is None,
            "model": target.model,
            "server": target.server.kind,
            "context_limit": target.context_limit,
        },
        "probe": None if probed is None else asdict(probed),
        "environment": _environment(),
    }


def _environment() -> dict[str, Any]:
    """What a run ran on; nothing that names a machine or a person."""
    packages = ("aiohttp", "numpy", "orjson", "pyarrow", "uvloop")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in packages},
    }


class _Replay:
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
        show: Callable[[Progress], None],
    ) -> None:
        self._dataset = dataset
        self._options = options
        self._target = target
        self._writer = writer
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
            async with _stopped_by_signals(self._driver) as received:
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
        aggregator = Aggregator(counting=self._counting)

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
        found = {
            "partial": stopped_by is not None,
            "client-bound": aggregate["client"]["bound"],
            "none-answered": aggregate["requests"]["ok"] == 0,
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


@asynccontextmanager
async def _stopped_by_signals(driver: Driver) -> AsyncIterator[list[signal.Signals]]:
    """Stop the driver at SIGINT or SIGTERM, and after a grace period, or at a second, for good."""
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def receive(number: signal.Signals) -> None:
        received.append(number)
        if len(received) > 1:
            driver.abandon()
        else:
            driver.stop()
            loop.call_later(GRACE_S, driver.abandon)

    numbers = (signal.SIGINT, signal.SIGTERM)
    with _restored(numbers):
        for number in numbers:
            loop.add_signal_handler(number, receive, number)
        try:
            yield received
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


@contextmanager
def _restored(numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Put signal handlers back as they were."""
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:
                signal.signal(number, handler)
