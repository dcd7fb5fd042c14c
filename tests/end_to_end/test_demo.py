"""The demo as a user starts it: real traces, real engine processes, a real page."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from agentx.replay.runs import open_run

COMMAND = (sys.executable, "-P", "-m", "agentx", "demo")


def left_behind(mark: str) -> list[str]:
    """Command lines of processes that have this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A value in the environment of all that a test starts."""
    value = uuid.uuid4().hex
    monkeypatch.setenv("AGENTX_TEST_MARK", value)
    return value


@pytest.mark.slow
def test_the_whole_path_on_the_bundled_traces(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(
        [*COMMAND, "-o", str(folder), "--json"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    document = orjson.loads(done.stdout)
    levels = document["levels"]
    assert [level["sessions_at_once"] for level in levels] == [1, 2, 3]
    rates = [level["hit_rate"] for level in levels]
    for level, rate in zip(levels, rates, strict=True):
        assert level["requests"] == {"ok": 225, "failed": 0}
        assert level["scaled"] == document["scaled"]
        # No session shares a block with another: what could be found does not hang on the order.
        assert rate["theoretical"] == rates[0]["theoretical"]
        assert rate["reported"] == pytest.approx(rate["metrics"], abs=0.002)
        run = open_run(Path(level["run"]))
        assert run.complete
        assert run.requests.num_rows == 225
    # The cache has room for one conversation, not for three.
    assert rates[0]["reported"] > rates[0]["theoretical"] - 0.02
    assert rates[2]["reported"] < rates[0]["reported"] - 0.05
    page = Path(document["report"]).read_text()
    assert page.startswith("<!doctype html>")
    assert len(page) < 10_000_000
    assert left_behind(mark) == []


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C, and once more where nothing came of it: Python only prints an interruption
    that falls into a destructor or a callback of the import system."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=15)
    raise AssertionError("Ctrl-C does not end it")


def test_ctrl_c_ends_it_at_once_and_leaves_no_engine(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "demo"
    process = subprocess.Popen(
        [*COMMAND, "-o", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("Replaying"):
                break
        out, rest = interrupt(process)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in rest
    assert "interrupted" in rest or "Stopped by SIGINT" in rest
    assert (folder / "dataset" / "agentx.json").is_file()
    assert left_behind(mark) == []
