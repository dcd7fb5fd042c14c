"""`agentx build` on a spool of long talks: bodies a second a core, and memory.

The talks are Anthropic's, of a coding agent with 25 tools: each turn carries all that was before
and adds a few kilobytes, taken from this repository's own sources.

    python -m benchmarks.build
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from agentx.datasets.trace.segments import segments
from agentx.datasets.trace.tokens import o200k_base
from agentx.proxy_addons.spool import SpoolReader
from agentx.proxy_addons.wire.calls import ModelCall, read_call
from agentx.proxy_addons.wire.exchange import Exchange
from tests.captured import exchange, write_spool

ROOT = Path(__file__).resolve().parents[1]
SESSIONS = 6
TURNS = 150
BETWEEN_MS = 1e7
"""Of two sessions' starts: they do not overlap."""
WHOLE = 40
"""Requests that are tokenised whole, for the ratio."""


def main() -> dict[str, Any]:
    """Build once in a process of its own; figures by name."""
    folder = Path(tempfile.mkdtemp(prefix="agentx-bench-"))
    try:
        spool = write_spool(folder / "spool", _talks())
        figures = _build(spool, folder / "dataset")
        whole = _tokenise_whole(spool)
        figures["CPU of it ÷ CPU of tokenising each request whole"] = (
            figures["CPU, ms a request"] / whole
        )
    finally:
        shutil.rmtree(folder)
    for name, value in figures.items():
        print(f"{name}: {value:,.4g}")
    return figures


def _build(spool: Path, dataset: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "agentx", "build", str(spool), "-o", str(dataset), "--json"]
    with tempfile.TemporaryFile() as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - started
        assert status == 0
        out.seek(0)
        document = orjson.loads(out.read())
    cpu = used.ru_utime + used.ru_stime
    megabytes = document["body_bytes"] / 1e6
    return {
        "bodies, MB": megabytes,
        "requests": float(document["counts"]["requests"]),
        "MB of bodies a second of CPU": megabytes / cpu,
        "MB of bodies a second": megabytes / took,
        "CPU, ms a request": 1000 * cpu / document["counts"]["requests"],
        "peak RSS, MB": used.ru_maxrss / 1024,
    }


def _tokenise_whole(spool: Path) -> float:
    """CPU milliseconds a request, without a memory of segments; of requests spread evenly."""
    every = SESSIONS * TURNS // WHOLE
    tokenizer = o200k_base()
    spent = 0.0
    for at, found in enumerate(SpoolReader(spool).exchanges()):
        if at % every == 0:
            call = read_call(found)
            assert isinstance(call, ModelCall)
            context = list(segments(call.request.blocks))
            started = time.process_time()
            for segment in context:
                tokenizer.segment(segment)
            spent += time.process_time() - started
    return 1000 * spent / WHOLE


def _talks() -> Iterator[Exchange]:
    chance = random.Random(1)
    texts = [path.read_text() for path in sorted((ROOT / "agentx").rglob("*.py"))]
    first = ROOT / "tests" / "fixtures" / "capture" / "claude-code" / "02.json"
    asked = orjson.loads(first.read_bytes())["request"]["body"]
    for session in range(SESSIONS):
        messages = list(asked["messages"])
        for turn in range(TURNS):
            text = chance.choice(texts)
            start = chance.randrange(max(1, len(text) - 4000))
            output = text[start : start + chance.randrange(500, 6000)]
            call: dict[str, Any] = {
                "type": "tool_use",
                "id": f"toolu_{session}_{turn}",
                "name": "Bash",
                "input": {"command": f"sed -n {start}p", "description": "Read a file"},
            }
            answer = [{"type": "text", "text": f"I will look at line {start}."}, call]
            yield exchange(
                {**asked, "messages": messages},
                headers={"x-claude-code-session-id": f"session-{session}"},
                at_ms=session * BETWEEN_MS + turn * 1000,
                answer=list(_stream(answer)),
                answer_headers={"content-type": "text/event-stream"},
                end_ms=900.0,
            )
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": output}
            messages = [
                *messages,
                {"role": "assistant", "content": answer},
                {"role": "user", "content": [result]},
            ]


def _stream(blocks: list[dict[str, Any]]) -> Iterator[tuple[float, bytes]]:
    """The events of an answer, eight characters each."""
    usage = {"input_tokens": 3, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": usage}}]
    for index, block in enumerate(blocks):
        text = block.get("text") or orjson.dumps(block["input"]).decode()
        empty = {**block, "text": ""} if "text" in block else {**block, "input": {}}
        key = "text" if "text" in block else "partial_json"
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += (
            {"type": "content_block_delta", "index": index, "delta": {key: text[at : at + 8]}}
            for at in range(0, len(text), 8)
        )
    stop = {"stop_reason": "tool_use"}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 50}})
    for at, event in enumerate(events):
        yield 100.0 + 5 * at, b"data: " + orjson.dumps(event) + b"\n\n"


if __name__ == "__main__":
    main()
