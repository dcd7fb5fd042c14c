"""The simulated engine: what a long prompt costs it, and how many tokens it streams.

CPU time, so that a busy machine changes little. The ratios compare with a JSON library on the same
bytes: reading the body of the prompt, and writing one event of the stream.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import aiohttp
import orjson

from agentx.engine.api import parse_completion
from agentx.engine.cache import PrefixCache
from agentx.engine.job import Job
from agentx.engine.prompts import PromptReader
from agentx.engine.scheduler import Scheduler
from agentx.engine.timing import Timing

WORDS = 100_000
MESSAGES = 250
STREAMS = 64
TOKENS = 2_000
EVENT = {
    "id": "chatcmpl-00000000000000000000000000000000",
    "object": "chat.completion.chunk",
    "created": 1_800_000_000,
    "model": "agentx-sim",
    "choices": [
        {"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}
    ],
}


def main() -> dict[str, float]:
    return {**prompt_figures(), **core_figures(), **stream_figures()}


def prompt_figures() -> dict[str, float]:
    """A conversation of 100,000 words, met for the first time and again with one message more."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 7))) for _ in range(2000)]
    messages = [
        {"role": "user", "content": " ".join(rng.choices(words, k=WORDS // MESSAGES))}
        for _ in range(MESSAGES)
    ]
    body = orjson.dumps({"messages": messages})
    grown = orjson.dumps({"messages": [*messages, {"role": "user", "content": "one more"}]})

    def first() -> None:
        parse_completion(body, chat=True, reader=PromptReader(), model="m")

    known = PromptReader()
    parse_completion(body, chat=True, reader=known, model="m")

    def again() -> None:
        parse_completion(grown, chat=True, reader=known, model="m")

    reading = cpu_seconds(lambda: orjson.loads(body))
    return {
        "prompt of 100,000 words, first, ms": cpu_seconds(first) * 1e3,
        "first, × reading its JSON": cpu_seconds(first) / reading,
        "one message later, ms": cpu_seconds(again) * 1e3,
        "one message later, × reading its JSON": cpu_seconds(again) / reading,
    }


def core_figures() -> dict[str, float]:
    """Cache, scheduler and timing alone, in virtual time: 64 long requests decode together."""
    scheduler = Scheduler(PrefixCache(20_000), Timing())
    for number in range(STREAMS):
        names = [(number, block) for block in range(250)]
        scheduler.add(Job(0.0, 4_000, 1_000, [*names]))
    start = time.process_time()
    now = 0.0
    while (step := scheduler.begin(now)) is not None:
        scheduler.finish(step)
        now = step.end
    seconds = time.process_time() - start
    return {
        "core, tokens a CPU second": scheduler.tally.generated_tokens / seconds,
        "core, engine seconds a CPU second": now / seconds,
    }


def stream_figures() -> dict[str, float]:
    """The server, streaming to 64 clients that only count events."""
    command = [sys.executable, "-P", "-m", "agentx", "engine", "--port", "0", "--json"]
    before = children_cpu()
    with subprocess.Popen(
        [*command, "--speed", "200", "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = json.loads(process.stdout.readline())["url"]
        start = time.perf_counter()
        asyncio.run(read_streams(url))
        wall = time.perf_counter() - start
        process.stdin.close()
    cpu = children_cpu() - before
    events = STREAMS * TOKENS
    writing = cpu_seconds(lambda: [json.dumps(EVENT) for _ in range(1000)]) / 1000
    return {
        "server, token events a second": events / wall,
        "server, token events a CPU second": events / cpu,
        "server, a token event × writing an event's JSON": cpu / events / writing,
    }


async def read_streams(url: str) -> None:
    async def read(session: aiohttp.ClientSession, number: int) -> None:
        body = {
            "messages": [{"role": "user", "content": f"stream {number}"}],
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        async with session.post(url + "/v1/chat/completions", json=body) as response:
            events = (await response.read()).count(b"\n\n")
        assert events == 1 + TOKENS + 2, "the role, the tokens, the finish reason and the end"

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(read(session, number) for number in range(STREAMS)))


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_seconds(work: Callable[[], object], repeat: int = 9) -> float:
    """CPU seconds of one call: the least of several."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best
