"""Runs made by hand, for pages: in the form that `agentx replay` writes, from a few sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from agentx.replay.aggregate import Aggregator, ClientState
from agentx.replay.metrics import CacheCounters
from agentx.replay.rows import REQUESTS
from agentx.replay.runs import TELEMETRY, Run, RunWriter
from agentx.report.charts.figure import Chart
from agentx.report.view import RunView, view

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    '"><svg onload=window.hacked=1>',
    "%{x}<b>\u202egnp.exe\x00\x1b[31m\u2028",
    "<a href='javascript:window.hacked=1'>click</a>",
)


@dataclass
class Synthetic:
    """Rows and run.json of a run; change them before the run is written or viewed."""

    requests: list[dict[str, Any]]
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    complete: bool = True
    client: ClientState = field(default_factory=lambda: ClientState([0.2, 0.4, 0.9], 3.2, 143.5))
    counters: CacheCounters | None = None

    def document(self) -> dict[str, Any]:
        """run.json of the finished run."""
        aggregator = Aggregator()
        for row in self.requests:
            aggregator.add(row)
        aggregate = aggregator.document(
            scaled=self.head.get("scaled"), counters=self.counters, client=self.client
        )
        aggregate["cut"] = {"agents": 1, "requests": 3}
        aggregate["sessions"] = {"planned": 6, "begun": 6, "ended": 6}
        return {
            "complete": self.complete,
            "stopped_by": None if self.complete else "SIGINT",
            "verdicts": [],
            "aggregate": aggregate,
        }

    def view(self, name: str = "made-by-hand") -> RunView:
        """The run as the page sees it, without a folder."""
        document = {"format_version": 1, "state": "finished", **self.head, **self.document()}
        tables = (
            pa.Table.from_pylist(rows, schema=schema)
            for rows, schema in ((self.requests, REQUESTS), (self.telemetry, TELEMETRY))
        )
        return view(Run(Path(name), document, "finished", *tables), name)

    def write(self, folder: Path, *, killed: bool = False) -> Path:
        """The run's folder; `killed`: as it is left when nobody could finish it."""
        with RunWriter(folder, self.head) as writer:
            for row in self.requests:
                writer.requests.append(row)
            for value in self.telemetry:
                writer.telemetry.append(value)
            if not killed:
                writer.write_tables()
                writer.finish(self.document())
        return folder


def run(sessions: int = 6, turns: int = 20, lanes: int = 3, *, seed: int = 1) -> Synthetic:
    """Sessions that grow turn by turn, on a server that forgets some of what it saw."""
    chance = np.random.default_rng(seed)
    requests: list[dict[str, Any]] = []
    free = [0.0] * lanes
    for session in range(sessions):
        lane = min(range(lanes), key=lambda n: free[n])
        clock, context = free[lane], 9000
        for turn in range(turns):
            theoretical = context // 64 * 64 if turn else 0
            context += int(chance.integers(200, 3000)) if turn else 0
            forgot = chance.random() < 0.12
            cached = theoretical // 160 * 16 if forgot else theoretical
            ttft = 20 + (context - cached) / 15 + float(chance.exponential(15))
            # Now and then a subagent that overlaps the main agent's next request.
            agent, start = (f"sub-{turn}", clock - 200) if turn % 6 == 4 else ("main", clock)
            row = _row(f"s-{session:03d}", turn, lane, agent, start)
            row |= _answer(start, ttft, output=int(chance.integers(20, 200)))
            row |= {
                "context_tokens": context,
                "words": context,
                "prompt_tokens": context,
                "cached_tokens": cached,
                "theoretical_tokens": theoretical,
                "theoretical_upper_tokens": min(context, theoretical + 63),
            }
            requests.append(row)
            clock = row["end_ms"] + float(chance.exponential(400))
        free[lane] = clock
    requests.sort(key=lambda row: float(row["sent_ms"]))
    return Synthetic(requests, _telemetry(max(free)), _head())


def fail(row: dict[str, Any], error: str, detail: str) -> None:
    """Turn an answered request into one that failed before its first output."""
    for name in ("first_byte_ms", "first_output_ms", "last_output_ms", "ttft_ms", "tpot_ms"):
        row[name] = None
    for name in ("e2e_ms", "prompt_tokens", "cached_tokens", "output_tokens", "tpot_assumed"):
        row[name] = None
    row |= {"event_ms": [], "events": 0, "error": error, "error_detail": detail, "status": None}


def traces(chart: Chart) -> Any:
    """The traces of a chart that has a figure."""
    assert chart.figure is not None
    return chart.figure.data


def _row(session: str, turn: int, lane: int, agent: str, start: float) -> dict[str, Any]:
    return dict.fromkeys(REQUESTS.names) | {
        "session_id": session,
        "request": turn,
        "lane": lane,
        "pass": 0,
        "agent_id": agent,
        "kind": "main" if agent == "main" else "subagent",
        "model": "simulated",
        "intended_ms": start - 0.5,
        "sent_ms": start,
        "messages": turn * 2 + 2,
        "kept_messages": turn * 2,
        "body_bytes": 5000,
        "connect_ms": 0.0,
        "reconnects": 0,
    }


def _answer(start: float, ttft: float, output: int) -> dict[str, Any]:
    events = [ttft + 11.0 * n + 2 * math.sin(n) for n in range(output)]
    return {
        "headers_ms": start + 1,
        "first_byte_ms": start + 2,
        "first_output_ms": start + ttft,
        "last_output_ms": start + events[-1],
        "end_ms": start + events[-1] + 1,
        "event_ms": events,
        "events": output,
        "asked_tokens": output,
        "output_tokens": output,
        "ttft_ms": ttft,
        "tpot_ms": (events[-1] - events[0]) / (output - 1),
        "tpot_assumed": True,
        "e2e_ms": events[-1] + 1,
        "status": 200,
        "finish_reason": "length",
    }


def _head() -> dict[str, Any]:
    return {
        "agentx_version": "0.1.0",
        "seed": 0,
        "started": "2026-11-30T10:00:00+00:00",
        "scaled": None,
        "configuration": {"sessions": 3, "think": "recorded", "max_context": None},
        "environment": {"python": "3.11.2", "system": "Linux x86_64", "cpus": 2},
        "endpoint": {"url": "http://127.0.0.1:8000/v1", "model": "simulated"},
        "dataset": {"name": "weka", "sessions": 6, "block_size": 64},
        "probe": {"counting": {"slope": 1.0, "overhead": 3.0}, "cached_reported": True},
    }


def _telemetry(end_ms: float) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for step in range(80):
        time = end_ms * step / 80
        for source, name, value in (
            ("server", "vllm:kv_cache_usage_perc", 0.4 + 0.3 * math.sin(step / 9)),
            ("server", "vllm:num_requests_running", float(step % 4)),
            ("server", "vllm:num_requests_waiting", float(step % 7 == 0)),
            ("client", "loop_lag_ms", 0.3 + 0.2 * math.cos(step)),
            ("client", "cpu_s", 0.05 * step),
            ("client", "rss_mb", 90 + step / 2),
        ):
            lines.append({"t_ms": time, "source": source, "name": name, "value": value})
    return lines
