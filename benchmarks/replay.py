"""The load generator beside the floor: what `agentx replay` makes of one core, as ratios.

The floor (../shared/bench/floor_client.py) is a bare aiohttp loop that keeps only times; both
send to ../shared/bench/mock_sse_server.py, one after the other, in this run, each on its own core.

    python -m benchmarks replay
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentx.datasets.parquet.info import DatasetInfo
from agentx.datasets.parquet.writer import DatasetWriter
from agentx.datasets.trace.block_runs import encode
from agentx.datasets.trace.model import MAIN_AGENT, Agent, Request, Session

BENCH = Path(__file__).resolve().parents[2] / "shared" / "bench"
BLOCK = 16
WORD_BYTES = 5.6
"""The mean of the word list, its space included."""
RUNS = 2


@dataclass(frozen=True)
class Shape:
    """A load that both clients can send."""

    name: str
    sessions: int
    turns: int
    first: int
    """Tokens of a session's first prompt."""
    grow: int
    """Tokens that each turn adds, the output before it included."""
    output: int


SHAPES = (
    Shape("short prompts, 64 at once", 64, 60, 100, 0, 16),
    Shape("64 streams of 256 events", 64, 6, 100, 0, 256),
    Shape("100,000-token prompts, growing, 8 at once", 8, 24, 100_000, 500, 16),
)
MEMORY = Shape("64 sessions of 100,000-token context", 64, 3, 100_000, 500, 16)


def main() -> dict[str, Any]:
    """Measure, print a line a shape, and return the figures."""
    if not BENCH.is_dir():
        print("replay: skipped, ../shared/bench (the floor client and the mock server) is not here")
        return {}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            found[shape.name] = _against_floor(shape, Path(folder))
        with mock_server() as url:
            _, document = _replay(write(MEMORY, Path(folder)), MEMORY, url)
        peak = document["client"]["peak_rss_mb"]
        print(f"replay: {MEMORY.name}: peak RSS {peak:.0f} MB")
        found[f"{MEMORY.name}: peak RSS, MB (below 1,000)"] = peak
    return found


def _against_floor(shape: Shape, folder: Path) -> dict[str, float]:
    dataset = write(shape, folder)
    floors, rates, peaks = [], [], []
    with mock_server() as url:
        # In turns, and the best of each: what else runs on the machine only ever takes away.
        for _ in range(RUNS):
            floors.append(_floor(shape, url)["req_per_s"])
            rate, document = _replay(dataset, shape, url)
            rates.append(rate)
            peaks.append(document["client"]["peak_rss_mb"])
    rate, floor = max(rates), max(floors)
    print(
        f"replay: {shape.name}: {rate:,.0f} requests/s ({rate * shape.output:,.0f} events/s), "
        f"{rate / floor:.2f}x the floor's {floor:,.0f}; peak RSS {max(peaks):.0f} MB"
    )
    return {
        "requests a second": rate,
        "of the floor's (at least 0.8)": rate / floor,
        "peak RSS, MB": max(peaks),
    }


def write(shape: Shape, folder: Path) -> Path:
    """The shape as a data set."""
    out = folder / shape.name.replace(" ", "-").replace(",", "")
    fresh = iter(range(10**12))
    with DatasetWriter(out, DatasetInfo(block_size=BLOCK, hash_scope="local")) as writer:
        for number in range(shape.sessions):
            writer.add(_session(f"s{number:04}", shape, fresh))
    return out


def _session(name: str, shape: Shape, fresh: Iterator[int]) -> Session:
    requests: list[Request] = []
    blocks: list[int] = []
    for turn in range(shape.turns):
        tokens = shape.first + turn * shape.grow
        extends = turn > 0 and shape.grow > 0
        kept = len(blocks) if extends else 0
        new = [next(fresh) for _ in range(tokens // BLOCK - kept)]
        blocks = (blocks if extends else []) + new
        requests.append(
            Request(
                session_id=name,
                request=turn,
                agent_id=MAIN_AGENT,
                kind="main",
                context_tokens=tokens,
                blocks=len(blocks),
                keyframe=not extends,
                append=encode(np.array(new, dtype=np.int64)),
                parent=turn - 1 if turn else None,
                keep_blocks=kept if turn else None,
                think_ms=0,
                output_tokens=shape.output,
            )
        )
    return Session(name, "bench", (Agent(name, MAIN_AGENT),), tuple(requests))


@contextmanager
def mock_server(*options: str) -> Iterator[str]:
    """The mock on a free port of the last core."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(BENCH / "mock_sse_server.py"), "--port", str(port)]
    command += ["--bytes-per-token", str(WORD_BYTES), *options]
    server = subprocess.Popen(_pinned(-1, command))
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(url + "/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait()


def _floor(shape: Shape, url: str) -> dict[str, Any]:
    command = [sys.executable, str(BENCH / "floor_client.py"), "--url", url]
    command += ["--concurrency", str(shape.sessions), "--out-tokens", str(shape.output)]
    if shape.grow:
        # Its words are four bytes, the list's 5.6.
        scale = WORD_BYTES / 4
        command += ["--mode", "multi", "--turns", str(shape.turns)]
        command += ["--in-tokens", str(round(shape.first * scale))]
        command += ["--grow", str(round(shape.grow * scale))]
    else:
        command += ["--requests", str(shape.sessions * shape.turns)]
        command += ["--in-tokens", str(round(shape.first * WORD_BYTES / 4))]
    return json.loads(_output(_pinned(0, command)))


def _replay(dataset: Path, shape: Shape, url: str) -> tuple[float, dict[str, Any]]:
    run = Path(tempfile.mkdtemp()) / "run"
    command = [sys.executable, "-P", "-m", "agentx", "replay", str(dataset), "--url", url]
    command += ["--sessions", str(shape.sessions), "--think", "none", "--json", "-o", str(run)]
    try:
        document = json.loads(_output(_pinned(0, command)))
    finally:
        shutil.rmtree(run.parent)
    failed = document["requests"]["failed"]
    if failed:
        raise SystemExit(f"replay: {failed} requests failed: {document['errors']}")
    return document["throughput"]["requests_per_s"], document


def _output(command: list[str]) -> bytes:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def _pinned(core: int, command: list[str]) -> list[str]:
    """The command on one core, where the system can do that."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2 or not shutil.which("taskset"):
        return command
    return ["taskset", "-c", str(cores[core]), *command]


if __name__ == "__main__":
    main()
