"""Synthetic text: what making it costs, and that a turn costs its new words only.

python -m benchmarks text
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import MAIN_AGENT, Agent, Request, Session
from agentx.replay.plan import plan_session
from agentx.replay.text import SessionText
from agentx.replay.words import Words

BLOCK = 64
NEW = 800
"""Tokens that a turn adds."""
TURNS = 12


def main() -> dict[str, Any]:
    """Measure, print a line a figure, and return the figures."""
    block_ms = _made(100_000)
    short, long, kept = _turn(10_000)[0], *_turn(100_000)
    print(f"text: 100,000 words from blocks in {block_ms:.1f} ms")
    print(f"text: a turn of {NEW} new tokens in {long:.2f} ms at 100,000 tokens of context,")
    print(f"text: {long / short:.2f}x that at 10,000; bytes held are {kept:.2f}x the text's own")
    return {
        "100,000 words from blocks, ms (about 10 or less)": block_ms,
        "a turn at 100,000 tokens, of one at 10,000 (about 1)": long / short,
        "bytes of distinct pieces, of the last prompt's (about 1)": kept,
    }


def _made(words: int) -> float:
    names = np.arange(words // BLOCK, dtype=np.uint64)
    first, count = np.zeros(names.size, np.int64), np.full(names.size, BLOCK)
    made = Words(b"benchmark")
    return min(_ms(lambda: made.text(names, first, count)) for _ in range(5))


def _turn(context: int) -> tuple[float, float]:
    """Median milliseconds a turn of a session that grows to `context`, and what is held."""
    session = _session(context)
    plan = plan_session(session)
    text = SessionText(session, plan, block_lists(session), block_size=BLOCK, salt=b"benchmark")
    times, pieces = [], {}
    for request in plan.requests:
        start = time.perf_counter()
        prompt = text.prompt(request.index)
        times.append((time.perf_counter() - start) * 1e3)
        pieces.update({id(piece): piece for piece in prompt.pieces})
    held = sum(map(len, pieces.values())) / len(prompt.json())
    return statistics.median(times[1:]), held


def _session(context: int) -> Session:
    requests, before = [], 0
    for turn in range(TURNS):
        tokens = context - NEW * (TURNS - 1 - turn)
        blocks = tokens // BLOCK
        requests.append(
            Request(
                session_id="s",
                request=turn,
                agent_id=MAIN_AGENT,
                kind="main",
                context_tokens=tokens,
                blocks=blocks,
                keyframe=turn == 0,
                append=((before,), (blocks - before,)),
                parent=turn - 1 if turn else None,
                keep_blocks=before if turn else None,
                output_tokens=300,
            )
        )
        before = blocks
    return Session("s", "benchmark", (Agent("s", MAIN_AGENT),), tuple(requests))


def _ms(call: Any) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3
