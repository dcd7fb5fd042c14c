"""`agentx engine` as a process: how it is started, asked, and stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

COMMAND = [sys.executable, "-m", "agentx", "engine", "--port", "0", "--json"]
ENVIRONMENT = os.environ | {"PYTHONSAFEPATH": "1"}
ENDLESS = {"prompt": "w " * 50, "max_tokens": 100_000, "ignore_eos": True, "stream": True}


@contextmanager
def engine(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A running engine and its URL. Its standard error must stay empty."""
    with subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            yield process, json.loads(line)["url"]
        finally:
            process.kill()
        assert process.stdout.read() == b"", "one line, no more"
        assert process.stderr.read() == b""


def post(url: str, path: str, fields: dict[str, Any]) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("POST", path, json.dumps(fields))
    return connection.getresponse()


def get(url: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    assert response.status == 200
    return response.read()


def test_the_line_says_where_and_how() -> None:
    options = ("--kv-tokens", "1000", "--speed", "20", "--model", "m", "--decode-ms", "3")
    with engine(*options, "--prefill-tokens-per-s", "1000") as (_, url):
        assert url.startswith("http://127.0.0.1:")
        assert json.loads(get(url, "/v1/models"))["data"][0]["max_model_len"] == 992
        with post(url, "/v1/completions", {"prompt": "w " * 9, "max_tokens": 1}) as response:
            document = json.load(response)
    assert document["model"] == "m"
    # 3 ms the step, 1 ms a token, and a trace of attention.
    assert document["agentx"]["ttft_ms"] == pytest.approx(12, abs=0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_though_clients_stream(number: signal.Signals) -> None:
    with engine() as (process, url), post(url, "/v1/completions", ENDLESS) as response:
        assert response.read(20).startswith(b"data: ")
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        # What was cut off is seen to be cut off.
        with pytest.raises(http.client.IncompleteRead):
            response.read()


def test_the_end_of_stdin_ends_it() -> None:
    with engine("--until-stdin-closes") as (process, url):
        get(url, "/health")
        assert process.stdin is not None
        process.stdin.write(b"what is written there does not matter\n")
        process.stdin.flush()
        get(url, "/health")
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_without_the_option_the_end_of_stdin_does_not_matter() -> None:
    with engine() as (process, url):
        assert process.stdin is not None
        process.stdin.close()
        get(url, "/health")
        assert process.poll() is None


def test_it_does_not_outlive_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
            "print(child.pid, flush=True)\n"
            "time.sleep(600)",
            *COMMAND,
            "--until-stdin-closes",
        ],
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        url = json.loads(parent.stdout.readline())["url"]
        get(url, "/health")
        parent.kill()
    try:
        deadline = time.monotonic() + 60
        while answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def answers(url: str) -> bool:
    try:
        get(url, "/health")
    except ConnectionError:
        return False
    return True


def test_bytes_that_are_no_http_leave_no_trace_in_the_log() -> None:
    """They are answered or dropped; `engine` checks that standard error stays empty."""
    hostile = [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x00\xff\r\n\r\n",
    ]
    with engine() as (_, url):
        for data in hostile:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            connection.connect()
            connection.sock.sendall(data)
            if b"100" not in data:
                assert connection.sock.recv(4096).startswith(b"HTTP/1.0 400")
            connection.close()
        with post(url, "/v1/completions", {"prompt": "w", "max_tokens": 1}) as response:
            assert response.status == 200


@pytest.mark.shared
def test_three_turns_of_a_client_of_others(shared_dir: Path) -> None:
    with engine("--speed", "20") as (_, url):
        script = shared_dir / "engines" / "turns.py"
        done = subprocess.run(
            [sys.executable, script, url], capture_output=True, check=True, timeout=60
        )
    turns = [json.loads(line) for line in done.stdout.splitlines()]
    usage = [turn["usage"] for turn in turns]
    prompts = [counts["prompt_tokens"] for counts in usage]
    outputs = [counts["completion_tokens"] for counts in usage]
    assert [turn["chunks"] for turn in turns] == outputs
    assert prompts == [400, 500 + outputs[0], 600 + outputs[0] + outputs[1]]
    cached = [counts["prompt_tokens_details"]["cached_tokens"] for counts in usage]
    # All of the turn before but its last token, in whole blocks.
    whole = [
        (prompt + output - 1) // 16 * 16 for prompt, output in zip(prompts, outputs, strict=True)
    ]
    assert cached == [0, *whole[:2]]
