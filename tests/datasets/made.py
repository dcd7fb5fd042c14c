"""Sessions and block lists made up for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from agentx.datasets.trace.block_runs import Blocks, Linked, link
from agentx.datasets.trace.model import MAIN_AGENT, Agent, Request, Segment, Session

Labels = tuple[int, ...]
"""A context as what its blocks say; equal prefixes get equal integers."""

label_paths = st.lists(st.lists(st.integers(0, 2), max_size=9).map(tuple), max_size=30)


@dataclass
class Namer:
    """Integers of blocks by the whole prefix up to them, dense in order of first use."""

    known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def name(self, labels: Sequence[object]) -> Blocks:
        prefixes = (tuple(labels[: end + 1]) for end in range(len(labels)))
        return np.array(
            [self.known.setdefault(prefix, len(self.known)) for prefix in prefixes], dtype=np.int64
        )


@dataclass(frozen=True)
class Turn:
    """One request of a made-up session."""

    labels: Labels
    agent: int = 0
    rest: int = 0
    """Tokens after the last full block."""
    output: int | None = 5
    tail: bool = False
    """The rest has an integer."""


def make_session(
    turns: Sequence[Turn],
    *,
    name: str = "one",
    namer: Namer | None = None,
    block_size: int = 16,
    shared: bool = False,
    start_ms: int | None = None,
    sent_ms: Sequence[int] | None = None,
    segments: bool = False,
) -> Session:
    """A session of these turns, sent a second apart; agent 0 is main, spawned others follow it.

    Blocks of two sessions of one namer are the same only if both are `shared`.
    """
    namer = namer or Namer()
    latest: dict[int, tuple[int, Linked]] = {}
    requests: list[Request] = []
    for number, turn in enumerate(turns):
        scoped: list[object] = [(None if shared else name, label) for label in turn.labels]
        blocks = namer.name(scoped)
        parent = latest.get(turn.agent)
        linked = link(blocks, parent[1] if parent else None)
        tail_id = int(namer.name([*scoped, ("tail", turn.rest)])[-1]) if turn.tail else None
        latest[turn.agent] = (number, linked)
        keep = linked.keep_blocks
        requests.append(
            Request(
                session_id=name,
                request=number,
                agent_id=agent_name(turn.agent),
                kind="subagent" if turn.agent else "main",
                context_tokens=blocks.size * block_size + turn.rest,
                blocks=blocks.size,
                keyframe=linked.keyframe,
                append=linked.append,
                parent=parent[0] if parent else None,
                waits_for=() if turn.agent else None,
                sent_ms=sent_ms[number] if sent_ms else number * 1000,
                output_tokens=turn.output,
                keep_tokens=None if keep is None else keep * block_size,
                keep_blocks=keep,
                tail_id=tail_id,
                tool_names=("Read", "Bash") if number % 2 else None,
            )
        )
    agents = sorted({turn.agent for turn in turns} | {0})
    return Session(
        session_id=name,
        source="made",
        agents=tuple(Agent(name, agent_name(agent)) for agent in agents),
        requests=tuple(requests),
        start_ms=start_ms,
        segments=tuple(Segment(name, number, 0, "user", 7) for number in range(len(turns)))
        if segments
        else (),
    )


def agent_name(agent: int) -> str:
    return f"agent-{agent}" if agent else MAIN_AGENT


turns = st.lists(
    st.builds(
        Turn,
        labels=st.lists(st.integers(0, 2), max_size=9).map(tuple),
        agent=st.integers(0, 2),
        rest=st.integers(1, 15),
        output=st.none() | st.integers(0, 90),
        tail=st.booleans(),
    ),
    min_size=1,
    max_size=20,
)
