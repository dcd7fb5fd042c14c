"""One pass over a data set's sessions: what `stats` makes its figures of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from agentx.datasets.trace.block_runs import block_lists, decode, whole_runs
from agentx.datasets.trace.hitrate import SeenBlocks, is_append_only, shared_tokens
from agentx.datasets.trace.model import MAIN_AGENT, BlockRuns, Session

SAME_START = 5
"""How many requests two sessions must share at their start to count as alike."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a request's block list is made of; numbers count through the data set."""

    request: int
    parent: int | None
    keyframe: bool
    keep_blocks: int | None
    append: BlockRuns
    tail_id: int | None


class Survey:
    """Figures of the sessions taken so far, in stored order."""

    def __init__(self, block_size: int) -> None:
        self._in_session = SeenBlocks(block_size)
        self._in_agent = SeenBlocks(block_size)
        self._block_size = block_size
        # One item a request.
        self.links: list[Link] = []
        self.times: list[tuple[int, int]] = []
        """(milliseconds on the data set's clock, session), never falling within a session."""
        self.contexts: list[int] = []
        self.outputs: list[int] = []
        """Of requests whose output length is known."""
        self.agent_hits: list[int] = []
        self.session_hits: list[int] = []
        self.shared: list[int] = []
        self.shared_live: list[int] = []
        self.append_only: list[bool | None] = []
        """None for an agent's first request."""
        # One item a session.
        self.append_only_shares: list[float] = []
        self.hit_rates: list[float] = []
        self.working_sets: list[int] = []
        self.lengths_ms: list[int] = []
        self.with_subagents = 0
        self.starts: Counter[Hashable] = Counter()
        self.wholes: Counter[Hashable] = Counter()
        # By value.
        self.models: Counter[str] = Counter()
        self.think_ms: dict[str, list[int]] = {"tool": [], "user": [], "unknown": []}
        self.in_subagents = 0

    def take(self, session: Session) -> None:
        """Add a session."""
        first = len(self.links)
        self._take_places(session, first)
        self._take_hits(session)
        self._take_requests(session)
        self._take_session(session, first)

    def _take_places(self, session: Session, first: int) -> None:
        number = len(self.lengths_ms)
        clock = session.start_ms or 0
        for request in session.requests:
            parent = None if request.parent is None else first + request.parent
            self.links.append(
                Link(
                    first + request.request,
                    parent,
                    request.keyframe,
                    request.keep_blocks,
                    request.append,
                    request.tail_id,
                )
            )
            # A request whose time is unknown was sent when the one before it was, at the earliest.
            clock = max(clock, (session.start_ms or 0) + (request.sent_ms or 0))
            self.times.append((clock, number))

    def _take_hits(self, session: Session) -> None:
        self._in_session.forget()
        hits = [
            self._in_session.hit_then_add(blocks, request.context_tokens, request.tail_id)
            for request, blocks in zip(session.requests, block_lists(session), strict=True)
        ]
        self.session_hits += hits
        self.working_sets.append(self._in_session.distinct * self._block_size)
        if len(session.agents) > 1:
            hits = self._agent_hits(session)
        self.agent_hits += hits

    def _agent_hits(self, session: Session) -> list[int]:
        hits = [0] * len(session.requests)
        for agent in session.agents:
            self._in_agent.forget()
            line = [item for item in session.requests if item.agent_id == agent.agent_id]
            for request, runs in zip(line, whole_runs(line), strict=True):
                hits[request.request] = self._in_agent.hit_then_add(
                    decode(runs), request.context_tokens, request.tail_id
                )
        return hits

    def _take_requests(self, session: Session) -> None:
        for request in session.requests:
            parent = None if request.parent is None else session.requests[request.parent]
            self.contexts.append(request.context_tokens)
            if request.output_tokens is not None:
                self.outputs.append(request.output_tokens)
            self.shared.append(shared_tokens(request, parent, output=False))
            self.shared_live.append(shared_tokens(request, parent, output=True))
            self.append_only.append(is_append_only(request, parent) if parent else None)
            self.models[request.model or "unknown"] += 1
            if request.think_ms is not None:
                self.think_ms[request.think_kind or "unknown"].append(request.think_ms)
            self.in_subagents += request.agent_id != MAIN_AGENT

    def _take_session(self, session: Session, first: int) -> None:
        self.with_subagents += len(session.agents) > 1
        context = sum(self.contexts[first:])
        if context:
            self.hit_rates.append(sum(self.session_hits[first:]) / context)
        turns = [turn for turn in self.append_only[first:] if turn is not None]
        if turns:
            self.append_only_shares.append(float(np.mean(turns)))
        times = [item.end_ms or item.sent_ms for item in session.requests]
        self.lengths_ms.append(max((time for time in times if time is not None), default=0))
        rows = [(r.sent_ms, r.context_tokens, r.output_tokens) for r in session.requests]
        self.wholes[hash((*rows, *(r.keep_blocks for r in session.requests)))] += 1
        if len(rows) >= SAME_START:
            self.starts[hash(tuple(rows[:SAME_START]))] += 1
