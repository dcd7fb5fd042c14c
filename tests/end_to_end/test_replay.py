"""`agentx replay` as a process: against the embedded engine, and against servers with faults."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx.datasets.importer import import_weka
from agentx.datasets.parquet.info import DatasetInfo
from agentx.datasets.parquet.reader import open_dataset
from agentx.datasets.parquet.writer import DatasetWriter
from agentx.datasets.samples import sample_folder
from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import Agent, Request, Session
from agentx.replay.runs import open_run
from tests.replay.fake_server import (
    DONE,
    HEAD,
    Call,
    Handler,
    chunk,
    ordinary,
    serving,
    stop,
    text,
    usage,
)

COMMAND = [sys.executable, "-P", "-m", "agentx", "replay"]
FAST = ["--think", "none", "--engine-speed", "1000"]

SLOW = ["--no-preflight", "--engine-speed", "0.2"]

RELIED_ON = {
    "requests": {"ok", "failed"},
    "hit_rate": {"theoretical", "reported", "metrics"},
    "throughput": {"requests_per_s", "input_tokens_per_s", "output_tokens_per_s"},
    "client": {"send_lag_ms", "loop_lag_ms", "cpu_s", "peak_rss_mb", "bound"},
    **{name: {"p50", "p90", "p99", "mean"} for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")},
}


def replay(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=120)
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


def figures(*arguments: str | Path) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(replay(*arguments, "--json").stdout)
    return document


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, fixtures_dir: Path) -> Path:
    """One real session of one agent."""
    out = tmp_path_factory.mktemp("alone") / "dataset"
    import_weka(fixtures_dir / "weka" / "trace_0546.json.gz", out)
    return out


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three real sessions, one with subagents that overlap."""
    out = tmp_path_factory.mktemp("samples") / "dataset"
    with sample_folder() as folder:
        import_weka(folder, out)
    return out


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four made-up sessions of five short requests each, for servers of the tests' own."""
    out = tmp_path_factory.mktemp("small") / "dataset"
    with DatasetWriter(out, DatasetInfo(block_size=16, hash_scope="local")) as writer:
        for number in range(4):
            writer.add(short_session(f"s{number}", first_block=5 * number))
    return out


def short_session(name: str, first_block: int) -> Session:
    requests = tuple(
        Request(
            session_id=name,
            request=turn,
            agent_id="main",
            kind="main",
            context_tokens=16 * (turn + 1) + 3,
            blocks=turn + 1,
            keyframe=turn == 0,
            append=((first_block + turn,), (1,)),
            parent=turn - 1 if turn else None,
            keep_blocks=turn if turn else None,
            output_tokens=2,
            think_ms=20,
        )
        for turn in range(5)
    )
    return Session(name, "test", (Agent(name, "main"),), requests)


def test_an_endless_cache_hits_what_the_trace_says(alone: Path, tmp_path: Path) -> None:
    document = figures(alone, *FAST, "-o", tmp_path / "run")
    run = open_run(tmp_path / "run")
    session = next(open_dataset(alone).sessions())
    assert document["requests"] == {"ok": len(session.requests), "failed": 0}
    assert document["run"] == str(tmp_path / "run")
    for key, names in RELIED_ON.items():
        assert names <= document[key].keys()
    rows = run.requests.to_pylist()
    assert [row["request"] for row in rows] == list(range(len(rows)))
    for row in rows:
        assert row["prompt_tokens"] == row["context_tokens"] == row["words"]
        assert row["output_tokens"] == row["asked_tokens"] == row["events"]
        # The engine's blocks of 16 find whole ones, never a prompt's last token, and no more than
        # the tail may add.
        assert row["theoretical_tokens"] - 16 <= row["cached_tokens"]
        assert row["cached_tokens"] <= row["theoretical_upper_tokens"]
    assert document["hits_beyond_possible"] == {"requests": 0, "tokens": 0}
    rate = document["hit_rate"]
    assert rate["reported"] == rate["metrics"]
    assert rate["theoretical"] == rate["theoretical_server"]
    assert rate["theoretical"] == pytest.approx(independent_rate(session), abs=1e-6)


def independent_rate(session: Session) -> float:
    """Hits of a session sent in order, straight from its blocks."""
    seen: set[int] = set()
    hits = 0
    for blocks in block_lists(session):
        names = blocks.tolist()
        new = (place for place, name in enumerate(names) if name not in seen)
        hits += 64 * next(new, len(names))
        seen.update(names)
    return hits / sum(request.context_tokens for request in session.requests)


def test_subagents_and_several_sessions_at_once(samples: Path, tmp_path: Path) -> None:
    options = ["--sessions", "3", "--max-context", "40000", "--seed", "3"]
    document = figures(samples, *FAST, *options, "-o", tmp_path / "run")
    run = open_run(tmp_path / "run")
    rows = run.requests.to_pylist()
    assert document["requests"]["failed"] == 0
    assert document["requests"]["ok"] + document["cut"]["requests"] == 225
    assert document["cut"]["lines"] > 0
    assert document["sessions"] == {"planned": 3, "begun": 3, "ended": 3}
    assert max(row["context_tokens"] for row in rows) <= 40_000
    assert {row["kind"] for row in rows} == {"main", "subagent"}
    assert {row["lane"] for row in rows} == {0, 1, 2}
    assert document["scaled"] == 1000
    assert document["engine"]["ttft_ms"]["p50"] > 0
    # Each step of the engine lasts 8 ms or more by its clock, however fast that runs.
    assert document["engine"]["tpot_ms"]["p50"] >= 8
    assert all((row["engine_tpot_ms"] is None) == (row["asked_tokens"] == 1) for row in rows)
    # Sent at once, siblings may miss what another of them is still computing.
    rate = document["hit_rate"]
    assert rate["reported"] == pytest.approx(rate["theoretical"], abs=0.02)
    for earlier, later in waits(samples, rows):
        assert later["sent_ms"] >= later["intended_ms"] >= earlier["end_ms"] - 0.001


def waits(dataset: Path, rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of rows of which the second had to wait for the first."""
    by_key = {(row["session_id"], row["request"]): row for row in rows}
    pairs = []
    for session in open_dataset(dataset).sessions():
        for request in session.requests:
            row = by_key.get((session.session_id, request.request))
            for other in (request.parent, request.spawned_by, *(request.waits_for or ())):
                if row is not None and (session.session_id, other) in by_key:
                    pairs.append((by_key[session.session_id, other], row))
    assert pairs
    return pairs


def test_a_small_cache_loses_hits(samples: Path, tmp_path: Path) -> None:
    options = ["--sessions", "3", "--max-context", "30000", "--kv-tokens", "32000"]
    rate = figures(samples, *FAST, *options, "-o", tmp_path / "run")["hit_rate"]
    # How much is lost depends on how the sessions fall beside each other.
    assert rate["reported"] < rate["theoretical"] - 0.01
    assert rate["metrics"] < rate["theoretical"] - 0.01


def test_text_for_people(alone: Path, tmp_path: Path) -> None:
    options = ["--max-requests", "2", *FAST]
    done = replay(alone, *options, "-o", tmp_path / "run")
    said = done.stdout.decode()
    assert "2 answered, 0 failed" in said
    assert "Scaled" in said
    assert "TPOT (ms, engine's own)" in said
    assert str(tmp_path / "run") in said
    assert done.stderr == b""


@pytest.mark.parametrize("more", [[], ["--no-preflight"], ["--url", "http://127.0.0.1:9"]])
def test_a_load_of_nothing_is_refused_before_anybody_is_asked(
    small: Path, tmp_path: Path, more: list[str]
) -> None:
    options = ["--max-context", "18", *more, "--json"]
    done = replay(small, *options, "-o", tmp_path / "run", status=2)
    assert b"--max-context 18 leaves nothing to send" in done.stderr
    assert b"give 19 or more" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""
    assert not (tmp_path / "run").exists()


def test_as_much_as_the_sentence_says_is_enough(small: Path, tmp_path: Path) -> None:
    document = figures(small, *FAST, "--max-context", "19", "-o", tmp_path / "run")
    assert document["requests"] == {"ok": 4, "failed": 0}


def test_a_data_set_without_a_call_that_generates_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    with DatasetWriter(out, DatasetInfo(block_size=16, hash_scope="local")) as writer:
        made = short_session("s", first_block=0)
        counting = tuple(replace(request, kind="count_tokens") for request in made.requests)
        writer.add(replace(made, requests=counting))
    done = replay(out, "-o", tmp_path / "run", status=2)
    assert b"of its 5 requests none asks a model for an answer" in done.stderr
    assert not (tmp_path / "run").exists()


def test_nobody_at_the_address(small: Path, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for more in ([], ["--no-preflight"]):
            done = replay(small, "--url", url, *more, "-o", tmp_path / "run", "--json", status=2)
            assert url in done.stderr.decode()
            assert done.stderr.count(b"\n") == 1
            assert done.stdout == b""
            assert not (tmp_path / "run").exists()


async def replayed(
    handler: Handler, dataset: Path, run: Path, *options: str, status: int = 0
) -> tuple[dict[str, Any], list[Call], str]:
    """Replay against a server of the test's; what it printed, what was called, what it said."""
    async with serving(handler) as server:
        command = [*COMMAND, str(dataset), "--url", server.url, "--json", "-o", str(run), *options]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == status, err.decode()
        assert b"Traceback" not in err
        return orjson.loads(out) if out else {}, server.calls, err.decode()


def chats(calls: list[Call]) -> list[bytes]:
    return [call.body for call in calls if call.path.endswith("/chat/completions")]


async def test_the_same_seed_sends_the_same_bytes(small: Path, tmp_path: Path) -> None:
    sent = []
    for number, seed in enumerate(["5", "5", "6"]):
        options = ["--seed", seed, "--sessions", "2", "--think", "none", "--no-preflight"]
        document, calls, _ = await replayed(ordinary, small, tmp_path / str(number), *options)
        assert document["seed"] == int(seed)
        sent.append(sorted(chats(calls)))
        lanes = open_run(tmp_path / str(number)).requests.to_pylist()
        order = [(row["lane"], row["session_id"], row["request"]) for row in lanes]
        expected = [
            (lane, f"s{session}", request)
            for lane, session in ((0, 0), (0, 2), (1, 1), (1, 3))
            for request in range(5)
        ]
        assert sorted(order, key=lambda row: row[0]) == expected
    assert sent[0] == sent[1]
    assert not set(sent[0]) & set(sent[2])


async def test_probes_are_not_counted(small: Path, tmp_path: Path) -> None:
    document, calls, _ = await replayed(ordinary, small, tmp_path / "run", "--max-requests", "3")
    assert document["requests"] == {"ok": 3, "failed": 0}
    assert open_run(tmp_path / "run").requests.num_rows == 3
    assert len(chats(calls)) > 3


async def test_a_strict_server_is_replayed_without_what_it_refuses(
    small: Path, tmp_path: Path
) -> None:
    async def handler(call: Call) -> None:
        if call.body and {"min_tokens", "ignore_eos"} & call.document.keys():
            await call.json(400, {"error": {"message": "unrecognized argument"}})
        else:
            await ordinary(call)

    document, _, said = await replayed(handler, small, tmp_path / "run", "--think", "none")
    assert document["requests"] == {"ok": 20, "failed": 0}
    assert said == ""


async def test_a_server_that_counts_otherwise_gets_other_texts(small: Path, tmp_path: Path) -> None:
    """Two tokens a word, and a template: the server's counts meet the trace's all the same."""

    async def handler(call: Call) -> None:
        if not call.body:
            await ordinary(call)
            return
        document = call.document
        words = sum(len(message["content"].split()) for message in document["messages"])
        await answer(call, 2 * words + 10, document["max_tokens"])

    document, _, said = await replayed(handler, small, tmp_path / "run", "--think", "none")
    assert "2.000 tokens a word" in said
    assert "words-adjusted" in document["verdicts"]
    for row in open_run(tmp_path / "run").requests.to_pylist():
        assert abs(row["prompt_tokens"] - 10 - row["context_tokens"]) <= 2


async def answer(call: Call, prompt_tokens: int, output: int) -> None:
    await call.stream(*[text("w")] * output, stop(), usage(prompt_tokens, output, None), DONE)


async def test_a_server_without_usage_leaves_rates_unknown(small: Path, tmp_path: Path) -> None:
    async def handler(call: Call) -> None:
        if call.body:
            await call.stream(*[text("w")] * call.document["max_tokens"], stop(), DONE)
        else:
            await ordinary(call)

    document, _, said = await replayed(handler, small, tmp_path / "run", "--think", "none")
    assert "reports no usage" in said
    assert "forced output length" not in said
    assert document["requests"]["ok"] == 20
    rate = document["hit_rate"]
    assert rate["theoretical"] > 0.5
    assert rate["reported"] is rate["metrics"] is rate["theoretical_server"] is None
    assert document["throughput"]["input_tokens_per_s"] is None
    assert document["tpot_ms"]["p50"] is None


async def test_a_cache_that_was_warm_is_found_out(small: Path, tmp_path: Path) -> None:
    seen: set[bytes] = set()

    async def handler(call: Call) -> None:
        if not call.body:
            await ordinary(call)
            return
        content = [message["content"] for message in call.document["messages"]]
        prompt = sum(len(one.split()) for one in content)
        cached = prompt if orjson.dumps(content) in seen else 0
        seen.add(orjson.dumps(content))
        output = call.document["max_tokens"]
        await call.stream(*[text("w")] * output, stop(), usage(prompt, output, cached), DONE)

    async with serving(handler) as server:
        for number, warm in enumerate([False, True]):
            command = [*COMMAND, str(small), "--url", server.url, "--think", "none", "--json"]
            process = await asyncio.create_subprocess_exec(
                *command, "--seed", "5", "-o", str(tmp_path / str(number)), stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
            document = orjson.loads(out)
            assert ("more-hits-than-possible" in document["verdicts"]) == warm
            assert document["requests"] == {"ok": 20, "failed": 0}
            assert (document["hits_beyond_possible"]["tokens"] > 0) == warm


async def test_a_server_that_dies_in_mid_run(small: Path, tmp_path: Path) -> None:
    async with serving() as server:

        async def handler(call: Call) -> None:
            if len(server.to("/v1/chat/completions")) > 12:
                await call.write(HEAD, chunk(text("a")))
                server.die()
            else:
                await ordinary(call)

        server.handler = handler
        command = [*COMMAND, str(small), "--url", server.url, "--json", "--think", "none"]
        process = await asyncio.create_subprocess_exec(
            *command, "-o", str(tmp_path / "run"), stdout=subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    document = orjson.loads(out)
    assert document["requests"] == {"ok": 7, "failed": 13}
    assert document["errors"] == {"broken": 1, "connect": 12}
    rows = open_run(tmp_path / "run").requests.to_pylist()
    assert [row["error"] for row in rows] == [None] * 7 + ["broken"] + ["connect"] * 12
    assert rows[7]["events"] == 1
    assert document["hit_rate"]["theoretical"] > 0


def faulty(fault: Callable[[Call], Any]) -> Handler:
    """Ordinary answers, but a fault for every second turn of a conversation."""

    async def handler(call: Call) -> None:
        if call.body and len(call.document["messages"]) == 4:
            await fault(call)
        else:
            await ordinary(call)

    return handler


async def html(call: Call) -> None:
    await call.answer(200, b"<html>Sign in</html>", "text/html")


async def too_many(call: Call) -> None:
    await call.json(429, {"error": {"message": "slow down"}})


async def stalls(call: Call) -> None:
    await call.write(HEAD, chunk(text("a")))
    await asyncio.sleep(60)


async def breaks_off(call: Call) -> None:
    await call.write(HEAD, chunk(text("a")), b"77\r\nda")
    call.writer.close()


@pytest.mark.parametrize(
    ("fault", "name"),
    [(html, "not_sse"), (too_many, "http_429"), (stalls, "timeout"), (breaks_off, "broken")],
)
async def test_a_fault_is_counted_and_the_session_goes_on(
    small: Path, tmp_path: Path, fault: Callable[[Call], Any], name: str
) -> None:
    options = ["--think", "none", "--timeout", "0.5", "--no-preflight"]
    document, _, _ = await replayed(faulty(fault), small, tmp_path / "run", *options)
    assert document["errors"] == {name: 4}
    assert document["requests"] == {"ok": 16, "failed": 4}


@pytest.mark.parametrize(
    ("fault", "words"), [(html, "not_sse"), (too_many, "slow down"), (breaks_off, "broken")]
)
async def test_an_endpoint_that_cannot_answer_a_probe_is_one_sentence(
    small: Path, tmp_path: Path, fault: Callable[[Call], Any], words: str
) -> None:
    async def handler(call: Call) -> None:
        await (fault(call) if call.body else ordinary(call))

    _, _, said = await replayed(handler, small, tmp_path / "run", status=2)
    assert words in said
    assert "http://127.0.0.1" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


async def test_a_key_is_sent_and_kept_nowhere(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k3y-of-mine")

    async def handler(call: Call) -> None:
        if call.body and len(call.document["messages"]) == 4:
            await call.json(401, {"error": {"message": f"bad: {call.headers['authorization']}"}})
        else:
            await ordinary(call)

    options = ["--think", "none", "--no-preflight"]
    document, calls, said = await replayed(handler, small, tmp_path / "run", *options)
    assert all(call.headers["authorization"] == "Bearer k3y-of-mine" for call in calls)
    assert document["errors"] == {"http_4xx": 4}
    details = open_run(tmp_path / "run").requests.column("error_detail").to_pylist()
    assert "bad: Bearer ***" in str(details)
    assert "k3y-of-mine" not in str(details) + said + (tmp_path / "run" / "run.json").read_text()


def started(dataset: Path, run: Path, *options: str) -> subprocess.Popen[bytes]:
    """A replay under way that has finished a few requests."""
    command = [*COMMAND, str(dataset), "-o", str(run), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = run / "requests.jsonl"
    deadline = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_keeps_its_rows(
    small: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with started(small, tmp_path / "run", *SLOW, "--json") as process:
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == status
    document = orjson.loads(out)
    assert document["complete"] is False
    assert document["stopped_by"] == number.name
    assert "partial" in document["verdicts"]
    run = open_run(tmp_path / "run")
    assert (run.state, run.complete) == ("finished", False)
    assert 3 <= run.requests.num_rows < 20
    assert run.requests.num_rows == sum(document["requests"].values())


def test_a_run_that_is_killed_keeps_its_rows_and_leaves_no_engine(
    small: Path, tmp_path: Path
) -> None:
    with started(small, tmp_path / "run", *SLOW) as process:
        engines = children(process.pid)
        process.kill()
    assert engines
    run = open_run(tmp_path / "run")
    assert (run.state, run.complete) == ("journal", False)
    assert run.requests.num_rows >= 3
    assert run.document["configuration"]["engine_speed"] == 0.2
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() and not is_zombie(pid) for pid in engines):
        assert time.monotonic() < deadline, "the engine outlives the replay"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_full_disk_ends_the_run_and_loses_nothing(small: Path, tmp_path: Path) -> None:
    command = [*COMMAND, str(small), *FAST, "-o", str(tmp_path / "run")]
    limited = f"ulimit -f 4; trap '' XFSZ; exec {' '.join(command)}"
    done = subprocess.run(
        ["bash", "-c", limited],
        capture_output=True,
        timeout=60,
        env=os.environ | {"TMPDIR": "/tmp"},
    )
    assert done.returncode == 2, done.stderr
    assert b"requests.jsonl: File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    run = open_run(tmp_path / "run")
    assert run.state == "journal"
    assert run.requests.num_rows >= 1


def test_two_runs_have_their_own_folders_and_words(small: Path, tmp_path: Path) -> None:
    command = [*COMMAND, str(small), *FAST, "--max-requests", "1", "--json"]
    folders, seeds = set(), set()
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, done.stderr
        document = orjson.loads(done.stdout)
        folder = Path(document["run"])
        assert folder.parent == tmp_path / "runs"
        assert open_run(folder).document["seed"] == document["seed"]
        folders.add(folder)
        seeds.add(document["seed"])
    assert len(folders) == len(seeds) == 2
