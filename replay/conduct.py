"""One replay from its options to its run folder: engine, preflight, load, figures."""

from __future__ import annotations

import asyncio
import math
import os
import platform
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agentx import __version__
from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet.reader import Dataset
from agentx.replay.endpoint import parse_url
from agentx.replay.engine_process import embedded_engine
from agentx.replay.errors import ReplayError
from agentx.replay.options import Options
from agentx.replay.plan import plan_session, shortest_start
from agentx.replay.probe import Probe, probe
from agentx.replay.recorded import Progress, RecordedLoad
from agentx.replay.runs import RunWriter, exists
from agentx.replay.session import Think
from agentx.replay.target import Target, find_target
from agentx.replay.transport import HttpTransport

PROBE_STALL_S = 60.0
"""A probe is a few hundred tokens: a server that needs longer than this for one has stalled."""


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
        ReplayError: the endpoint cannot serve the run, or there is nothing to send (then there is
            no run folder), or the folder is there already.
        DatasetError: a session cannot be read; the run holds what went before.
        OSError: the run cannot be written; what was written stays and can be read.
    """
    _check(options, folder)
    await _check_something_to_send(dataset, options)
    _allow_many_connections()
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
            load = RecordedLoad(
                dataset, options, target, probed, transport, writer, think, say=say, show=show
            )
            try:
                stopped_by = await load.run()
            except DatasetError as error:
                raise DatasetError(f"{error}; what had finished is in {folder}") from None
            return Outcome(folder, load.finish(scaled, stopped_by), stopped_by)


def _check(options: Options, folder: Path) -> None:
    if folder.exists():
        raise exists(folder)
    if options.url is not None and options.kv_tokens is not None:
        raise ReplayError(
            "--kv-tokens is the embedded engine's: leave out --url, or set the server's own cache"
        )
    if not 0 < options.timeout_s < math.inf:
        raise ReplayError(f"--timeout is seconds above 0, not {options.timeout_s}")


async def _check_something_to_send(dataset: Dataset, options: Options) -> None:
    """Refuse a load of nothing. Sessions are read up to the first that has anything to send."""
    starts: list[int] = []
    for session in dataset.sessions():
        if plan_session(session, max_context=options.max_context).requests:
            return
        if (start := shortest_start(session)) is not None:
            starts.append(start)
        await asyncio.sleep(0)  # a signal may end this
    if starts:
        least = min(starts)
        raise ReplayError(
            f"--max-context {options.max_context} leaves nothing to send: the shortest request "
            f"that begins a line in {dataset.folder} has {least:,} tokens; give {least} or more"
        )
    raise ReplayError(
        f"{dataset.folder} has nothing to send: of its {dataset.info.counts.requests:,} requests "
        "none asks a model for an answer; replay another data set"
    )


def _allow_many_connections() -> None:
    """Open files up to the hard limit: each request in flight holds a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems have no hard limit but refuse to go without one.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
    if probed.exact_length is False:
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
