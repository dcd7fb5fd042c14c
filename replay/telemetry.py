"""What goes on beside the requests: the server's metrics, and the client's own state.

A load generator that cannot keep up measures itself; its lag, CPU and memory are in every run.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeAlias

from agentx.replay.metrics import Reading, read_metrics
from agentx.replay.servers import Server
from agentx.replay.target import read_page
from agentx.replay.transport import HttpTransport

EVERY_S = 2.0
LAG_EVERY_S = 0.05

Sink: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes a row of telemetry.parquet."""

_PAGE = resource.getpagesize()
_STATM = Path("/proc/self/statm")


class Telemetry:
    """Watches from `start` to `stop`, and hands a row of each value to the sink."""

    def __init__(
        self, transport: HttpTransport, metrics_url: str, server: Server, sink: Sink
    ) -> None:
        self._transport = transport
        self._url = metrics_url
        self._server = server
        self._sink = sink
        self._origin = 0.0
        self._cpu_start = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._worst_lag_ms = 0.0
        self.lags_ms = array("f")
        """How late the event loop came to each of many regular appointments."""
        self.cpu_s = 0.0
        """CPU time of this process during the load."""
        self.before: Reading = {}
        self.after: Reading = {}

    async def start(self) -> float:
        """Read the server's counters, then begin to watch; returns the run's start.

        Seconds of `time.perf_counter`, from which all times of the run count.
        """
        self.before = await self._scrape()
        self._origin = perf_counter()
        self._cpu_start = process_time()
        self._note_server(self.before)
        self._note_client()
        self._tasks = [
            asyncio.create_task(self._watch_loop()),
            asyncio.create_task(self._watch_client()),
            asyncio.create_task(self._watch_server()),
        ]
        return self._origin

    async def stop(self) -> None:
        """Stop watching and read the server's counters a last time."""
        self.cpu_s = process_time() - self._cpu_start
        self._note_client()
        for task in self._tasks:
            task.cancel()
        # Not `await task` with its cancellation suppressed: ours would be swallowed with it.
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()
        self.after = await self._scrape()
        self._note_server(self.after)

    async def _watch_loop(self) -> None:
        due = perf_counter() + LAG_EVERY_S
        while True:
            await asyncio.sleep(due - perf_counter())
            now = perf_counter()
            lag_ms = max(0.0, now - due) * 1e3
            self.lags_ms.append(lag_ms)
            self._worst_lag_ms = max(self._worst_lag_ms, lag_ms)
            # An appointment that was missed is not made up for: each counts once.
            due = now + LAG_EVERY_S

    async def _watch_client(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._note_client()

    async def _watch_server(self) -> None:
        if not self._server.names():
            return
        while True:
            await asyncio.sleep(EVERY_S)
            self._note_server(await self._scrape())

    async def _scrape(self) -> Reading:
        if not self._server.names():
            return {}
        page = await read_page(self._transport, self._url)
        return {} if page is None else read_metrics(page, self._server)

    def _note_client(self) -> None:
        self._note("client", "cpu_s", process_time() - self._cpu_start)
        self._note("client", "loop_lag_ms", self._worst_lag_ms)
        if (rss := rss_mb()) is not None:
            self._note("client", "rss_mb", rss)
        self._worst_lag_ms = 0.0

    def _note_server(self, reading: Reading) -> None:
        for name, value in reading.items():
            self._note("server", name, value)

    def _note(self, source: str, name: str, value: float) -> None:
        t_ms = round((perf_counter() - self._origin) * 1e3, 3)
        self._sink({"t_ms": t_ms, "source": source, "name": name, "value": value})


def rss_mb() -> float | None:
    """Memory of this process now, in MB; None where the system does not tell."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * _PAGE / 1e6


def peak_rss_mb() -> float:
    """The most memory that this process has had, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
