"""From agents through the proxy and the spool to a data set, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from agentx.datasets.parquet.reader import open_dataset
from tests.capture_process import ROOT, CaptureProcess
from tests.captured import fixture_exchanges, write_spool
from tests.datasets.test_build import everything_in, texts_of
from tests.datasets.test_sessions import check_fixture
from tests.fake_upstream import FakeUpstream, fixtures, playing
from tests.raw_http import Client

AGENTS = ("claude-code", "opencode")


async def run_agentx(*arguments: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentx", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    document = orjson.loads(out)
    assert isinstance(document, dict)
    return document


async def test_fixtures_come_back_as_the_expected_trees(fixtures_dir: Path, tmp_path: Path) -> None:
    folder = fixtures_dir / "capture"
    cases = {agent: fixtures(folder / agent) for agent in AGENTS}
    spool, dataset = tmp_path / "spool", tmp_path / "dataset"
    everything = [case for agent in AGENTS for case in cases[agent]]
    async with (
        FakeUpstream(playing(everything, time_scale=0.1)) as upstream,
        CaptureProcess(upstream.url, spool) as proxy,
    ):
        client = await Client.connect(proxy.port)
        for case in everything:
            headers = [pair for pair in case.headers if pair[0] != "Host"]
            answer = await client.ask(case.method, case.path, headers, case.body)
            assert answer.body == case.response_body
        await client.close()
        await proxy.stop()

    document = await run_agentx("build", str(spool), "-o", str(dataset), "--json")

    assert document["exchanges"] == len(everything)
    assert document["dropped"] == {"no_model_call": {"count": 5, "what": "exchanges"}}
    sessions = sorted(open_dataset(dataset).sessions(), key=lambda s: s.start_ms or 0)
    assert len(sessions) == 4
    check_fixture(folder, "claude-code", sessions[:2])
    check_fixture(folder, "opencode", sessions[2:])
    for session in sessions:
        for request in session.requests:
            assert request.streamed
            assert request.sent_ms is not None
            assert request.first_output_ms is not None
            assert request.end_ms is not None
            assert request.sent_ms < request.first_output_ms <= request.end_ms

    data = everything_in(dataset)
    for agent in AGENTS:
        credentials = {c for case in cases[agent] for c in case.credentials}
        assert credentials
        for text in credentials | texts_of(folder / agent):
            assert orjson.dumps(text)[1:-1] not in data
    stats = await run_agentx("stats", str(dataset), "--json")
    assert (stats["sessions"], stats["requests"], stats["subagents"]) == (4, 23, 2)


def test_a_signal_leaves_nothing(fixtures_dir: Path, tmp_path: Path) -> None:
    exchanges = fixture_exchanges(fixtures_dir / "capture" / "claude-code")
    spool = write_spool(tmp_path / "spool", exchanges * 30)
    command = ["build", str(spool), "-o", str(tmp_path / "dataset")]
    with subprocess.Popen(
        [sys.executable, "-m", "agentx", *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    ) as process:
        while not list(tmp_path.glob("dataset.private/unfinished-*/scratch.sqlite")):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]
