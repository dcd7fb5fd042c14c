"""Sessions for tests: by hand, and drawn as trees of true token streams that a trace then hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentx.datasets.trace.block_runs import Blocks, common_prefix, encode
from agentx.datasets.trace.model import MAIN_AGENT, Agent, Request, Session


def request(index: int, **fields: Any) -> Request:
    """A request of the main agent with nothing in it but what is given; `blocks` is the list."""
    blocks: Sequence[int] = fields.pop("blocks", ())
    given: dict[str, Any] = {
        "session_id": "s",
        "request": index,
        "agent_id": MAIN_AGENT,
        "kind": "main",
        "context_tokens": 10,
        "blocks": len(blocks),
        "keyframe": True,
        "append": encode(list(blocks)),
        "output_tokens": 1,
    }
    return Request(**(given | fields))


def session(*requests: Request, agents: Sequence[Agent] = ()) -> Session:
    """A session of these requests."""
    named = {agent.agent_id: agent for agent in agents}
    ids = dict.fromkeys(r.agent_id for r in requests)
    every = tuple(named.get(agent_id, Agent("s", agent_id)) for agent_id in ids)
    return Session("s", "test", every, requests)


@dataclass(frozen=True)
class Told:
    """A session, and the true streams of tokens behind its block integers."""

    session: Session
    contexts: list[list[int]]
    lists: list[Blocks]
    block_size: int


@st.composite
def told_sessions(draw: st.DrawFn, block_size: int = 4) -> Told:
    """Sessions with branches, rewrites, retries, siblings, agents and waits; times and tails too.

    Each context begins with some of an earlier one. Sources that compare tokens say how many a
    child keeps, others only whole blocks.
    """
    exact = draw(st.booleans())
    count = draw(st.integers(1, 12))
    contexts: list[list[int]] = []
    lists: list[Blocks] = []
    requests: list[Request] = []
    names: dict[tuple[int, ...], int] = {}
    fresh = iter(range(10**9))
    now = 0
    for index in range(count):
        agent = draw(st.sampled_from(["main", "main", "a", "b"])) if index else "main"
        line = [r.request for r in requests if r.agent_id == agent]
        parent = draw(st.sampled_from([line[-1], *line, None])) if line else None
        source = parent if parent is not None and draw(st.integers(0, 4)) else None
        if source is None and index and draw(st.booleans()):
            source = draw(st.integers(0, index - 1))
        kept: list[int] = []
        if source is not None:
            whole = contexts[source]
            size = draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
            kept = whole[:size]
        new = draw(st.one_of(st.just(0), st.integers(0, 3 * block_size)))
        context = kept + [next(fresh) for _ in range(new)]
        full = len(context) // block_size
        ids = [
            names.setdefault(tuple(context[: (i + 1) * block_size]), len(names))
            for i in range(full)
        ]
        blocks = np.array(ids, dtype=np.int64)
        keep_tokens = keep_blocks = None
        if parent is not None:
            keep_blocks = common_prefix(lists[parent], blocks)
            same = _common(contexts[parent], context)
            keep_tokens = same if exact else keep_blocks * block_size
        waits = draw(st.lists(st.integers(0, index - 1), max_size=2)) if index else []
        spawner = [r.spawned_by for r in requests if r.agent_id == agent]
        if agent != "main" and not spawner and draw(st.booleans()):
            spawner = [draw(st.integers(0, index - 1))]
        now += draw(st.integers(0, 2000))
        requests.append(
            request(
                index,
                agent_id=agent,
                kind=draw(st.sampled_from(["main"] * 9 + ["count_tokens"])),
                blocks=ids,
                context_tokens=len(context),
                parent=parent,
                waits_for=tuple(waits) or None,
                spawned_by=spawner[0] if spawner else None,
                keep_tokens=keep_tokens,
                keep_blocks=keep_blocks,
                output_tokens=draw(st.none() | st.integers(0, 9)),
                output_context_tokens=draw(st.none() | st.integers(0, 9)),
                sent_ms=draw(st.just(now) | st.none()),
                end_ms=draw(st.none() | st.integers(now, now + 3000)),
                think_ms=draw(st.none() | st.integers(0, 3000)),
            )
        )
        contexts.append(context)
        lists.append(blocks)
    tools = draw(st.none() | st.integers(0, 9))
    agents = [Agent("s", name, tool_tokens=tools, system_tokens=tools) for name in ("main", "a")]
    return Told(session(*requests, agents=agents), contexts, lists, block_size)


def _common(one: list[int], two: list[int]) -> int:
    same = 0
    while same < min(len(one), len(two)) and one[same] == two[same]:
        same += 1
    return same
