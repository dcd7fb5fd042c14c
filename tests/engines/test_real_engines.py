"""A real trace replayed against real serving engines on the CPU (`make test-engines`).

The engines and how they are started come with the shared cases; each makes its own environment on
first use, which takes minutes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engines, pytest.mark.shared, pytest.mark.timeout(1500)]


@dataclass(frozen=True)
class Engine:
    """How to start one, and the size of what it keeps."""

    script: str
    options: tuple[str, ...]
    granularity: int
    """Tokens of its cache block: it hits whole ones, and never a prompt's last token."""
    ready: str


ENGINES = {
    "llamacpp": Engine("llamacpp.sh", (), 1, "/health"),
    "dynamo": Engine("dynamo_mocker.sh", (), 16, "/v1/models"),
    "vllm": Engine("vllm_cpu.sh", (), 32, "/health"),
}


@contextmanager
def serving(engine: Engine, shared: Path, work: Path, log: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    script = shared / "engines" / engine.script
    with log.open("wb") as output:
        process = subprocess.Popen(
            [script, work, str(port), *engine.options],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
        )
    try:
        deadline = time.monotonic() + 1200
        while not _answers(url + engine.ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{engine.script} did not start; see {log}")
            time.sleep(1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200 and (b"tiny" in response.read() or "health" in url)
    except OSError:
        return False


def agentx(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agentx", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where engines live; AGENTX_ENGINES keeps them between runs."""
    kept = os.environ.get("AGENTX_ENGINES")
    return Path(kept) if kept else tmp_path_factory.mktemp("engines")


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_real_trace_on_a_real_engine(
    name: str, shared_dir: Path, fixtures_dir: Path, work: Path, tmp_path: Path
) -> None:
    engine = ENGINES[name]
    dataset, run = tmp_path / "dataset", tmp_path / "run"
    agentx("import", "weka", fixtures_dir / "weka" / "trace_0546.json.gz", "-o", dataset)
    with serving(engine, shared_dir, work / name, tmp_path / "engine.log") as url:
        options = ["--think", "none", "--max-context", "15500", "--seed", "5"]
        result = json.loads(agentx("replay", dataset, "--url", url, *options, "-o", run, "--json"))
    assert result["requests"]["failed"] == 0
    assert result["requests"]["ok"] >= 3
    assert result["endpoint"]["server"] == name
    rate = result["hit_rate"]
    tokens = result["tokens"]["input"]
    # The engine finds what the trace shares, less its rounding: at most a block a request and the
    # last token; and at most what a tail's block adds. Words that are several tokens make both
    # bounds a mean over blocks, which the last term allows for.
    slack = result["requests"]["ok"] * (engine.granularity + 64) / tokens + 0.01
    assert (
        rate["theoretical_server"] - slack <= rate["reported"] <= rate["theoretical_server"] + slack
    )
    assert rate["metrics"] is None or abs(rate["metrics"] - rate["reported"]) < 0.01
    assert result["ttft_ms"]["p50"] > 0
