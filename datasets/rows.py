"""A session's calls as the rows of a data set: relative times, positions, counts; no text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentx.datasets.answers import Answers
from agentx.datasets.edges import IN_LINE, connect
from agentx.datasets.prefixes import Prefix, Prefixes
from agentx.datasets.recorded import Facts, Recorded
from agentx.datasets.sessions import Placed
from agentx.datasets.spawns import Spawns, Start
from agentx.datasets.trace.model import (
    MAIN_AGENT,
    Agent,
    EdgeEvidence,
    Request,
    Segment,
    Session,
    ThinkKind,
)
from agentx.datasets.trace.segments import prefix_breakers
from agentx.proxy_addons.wire.values import as_tool_name

SOURCE = "capture"


@dataclass(frozen=True, slots=True)
class _Tree:
    """Who goes on from whom, by position."""

    parents: list[tuple[int, float] | None]
    starts: dict[str, Start]
    waits: dict[int, tuple[int, ...]]


def session_rows(
    session_id: str,
    placed: Sequence[Placed],
    facts: Facts,
    prefixes: Prefixes,
    dataset_start_ms: float,
) -> tuple[Session, dict[str, str]]:
    """One session, and the agents' real ids by their names in it."""
    tree = _tree(placed, facts)
    names = _names(placed)
    rows = _Rows(session_id, placed, tree, names, facts)
    requests: list[Request] = []
    segments: list[Segment] = []
    last_child = {parent[0]: at for at, parent in enumerate(tree.parents) if parent is not None}
    held: dict[int, Prefix] = {}
    for at, call in enumerate(placed):
        edge = tree.parents[at]
        parent = None if edge is None else held[edge[0]]
        if edge is not None and last_child[edge[0]] == at:
            del held[edge[0]]
        prefix = prefixes.prefix(call.call, parent)
        if at in last_child:
            held[at] = prefix
        requests.append(rows.request(at, prefix))
        segments.extend(rows.segments(at, prefix))
    session = Session(
        session_id=session_id,
        source=SOURCE,
        agents=tuple(rows.agents()),
        requests=tuple(requests),
        start_ms=round(placed[0].call.opened_ms - dataset_start_ms),
        segments=tuple(segments),
    )
    return session, {name: agent for agent, name in names.items()}


def _tree(placed: Sequence[Placed], facts: Facts) -> _Tree:
    parents = connect(placed, facts)
    spawns = Spawns(placed, facts)
    return _Tree(parents, spawns.starts, spawns.waits())


def _names(placed: Sequence[Placed]) -> dict[str, str]:
    """Agents by their own ids → their names in the data set."""
    names = {MAIN_AGENT: MAIN_AGENT}
    for call in placed:
        if call.agent not in names:
            names[call.agent] = f"agent-{len(names)}"
    return names


class _Rows:
    def __init__(
        self,
        session_id: str,
        placed: Sequence[Placed],
        tree: _Tree,
        names: dict[str, str],
        facts: Facts,
    ) -> None:
        self._session_id = session_id
        self._placed = placed
        self._tree = tree
        self._names = names
        self._facts = facts
        self._start_ms = placed[0].call.opened_ms
        parents = [None if edge is None else edge[0] for edge in tree.parents]
        self._answers = Answers(placed, parents, facts)

    def agents(self) -> Iterator[Agent]:
        """The agents that have requests, in order of their first."""
        for agent in dict.fromkeys(call.agent for call in self._placed):
            calls = [p.call for p in self._placed if p.agent == agent]
            ends = [end for call in calls if (end := self._end(call)) is not None]
            tools, system = self._head_tokens(agent)
            yield Agent(
                session_id=self._session_id,
                agent_id=self._names[agent],
                spawned_by=self._spawner(agent),
                start_ms=self._at(calls[0].opened_ms),
                end_ms=max(ends, default=None),
                tool_tokens=tools,
                system_tokens=system,
            )

    def _head_tokens(self, agent: str) -> tuple[int | None, int | None]:
        """Our count of the tools and of the system prompt that the agent's talk begins with."""
        first = next((p for p in self._placed if p.agent == agent and p.kind in IN_LINE), None)
        if first is None:
            return None, None
        head = first.call.context[: len(first.call.context) - len(first.messages)].tolist()
        found = [self._facts(segment) for segment in head]
        tools = sum(f.tokens for f in found if f.kind == "tool_definition")
        return tools, sum(f.tokens for f in found if f.kind == "system")

    def request(self, at: int, prefix: Prefix) -> Request:
        """The row of one request."""
        placed, call = self._placed[at], self._placed[at].call
        edge = self._tree.parents[at]
        parent = None if edge is None else edge[0]
        facts = [self._facts(segment) for segment in call.context.tolist()]
        waits = self._tree.waits.get(at, ())
        evidence, confidence = self._evidence(at)
        linked = prefix.linked
        spawner = self._spawner(placed.agent)
        return Request(
            session_id=self._session_id,
            request=at,
            agent_id=self._names[placed.agent],
            kind=self._placed[at].kind,
            context_tokens=prefix.context.tokens,
            blocks=len(linked.blocks),
            keyframe=linked.keyframe,
            append=linked.append,
            parent=parent,
            waits_for=waits,
            spawned_by=spawner if spawner is not None and spawner < at else None,
            model=call.model,
            sent_ms=self._at(call.opened_ms),
            first_output_ms=self._after(call, call.first_output_ms),
            end_ms=self._end(call),
            think_ms=self._think_ms(at, parent, waits),
            think_kind=self._think_kind(at, parent),
            opaque_tokens=sum(f.opaque for f in facts),
            input_tokens=call.usage.input,
            cached_tokens=call.usage.cached,
            cache_write_tokens=call.usage.cache_write,
            output_tokens=call.usage.output,
            reasoning_tokens=call.usage.reasoning,
            output_context_tokens=self._answers.tokens.get(at),
            keep_tokens=prefix.keep_tokens,
            keep_blocks=linked.keep_blocks,
            prefix_breakers=self._breakers(call, parent, prefix.keep_segments),
            status=call.status,
            stop_reason=call.stop_reason,
            error=call.error,
            tool_names=self._tools_called(call),
            edge_evidence=evidence,
            edge_confidence=confidence,
            streamed=call.streamed,
        )

    def segments(self, at: int, prefix: Prefix) -> Iterator[Segment]:
        """The rows of the segments that a request appends."""
        context = self._placed[at].call.context.tolist()
        for position in range(prefix.keep_segments, len(context)):
            facts = self._facts(context[position])
            yield Segment(
                session_id=self._session_id,
                request=at,
                position=position,
                kind=facts.kind,
                tokens=facts.tokens,
                tool_name=as_tool_name(facts.tool_name),
            )

    def _spawner(self, agent: str) -> int | None:
        start = self._tree.starts.get(agent)
        return None if start is None else start.spawner

    def _evidence(self, at: int) -> tuple[EdgeEvidence | None, float | None]:
        placed, edge = self._placed[at], self._tree.parents[at]
        if edge is not None:
            return ("id" if placed.evidence == "id" else "prefix"), edge[1]
        start = self._tree.starts.get(placed.agent)
        if start is not None and start.spawner is not None:
            return start.evidence, start.confidence
        return None, None

    def _breakers(self, call: Recorded, parent: int | None, kept: int) -> tuple[str, ...] | None:
        if parent is None:
            return None
        return prefix_breakers(self._placed[parent].call.unseen, call.unseen, kept)

    def _tools_called(self, call: Recorded) -> tuple[str, ...]:
        found = (self._facts(segment) for segment in call.answer.tolist())
        names = (as_tool_name(f.tool_name) for f in found if f.kind == "tool_call")
        return tuple(name for name in names if name is not None)

    # Times

    def _at(self, wall_ms: float) -> int:
        return max(round(wall_ms - self._start_ms), 0)

    def _after(self, call: Recorded, elapsed_ms: float | None) -> int | None:
        return None if elapsed_ms is None else self._at(call.opened_ms + max(elapsed_ms, 0.0))

    def _end(self, call: Recorded) -> int | None:
        return self._after(call, call.end_ms)

    def _think_ms(self, at: int, parent: int | None, waits: tuple[int, ...]) -> int | None:
        """From the latest end of what the request waited for; overlapping ones thought for 0."""
        spawner = self._spawner(self._placed[at].agent)
        if parent is None:
            if self._placed[at].kind != "subagent" or spawner is None:
                return None
            parent = spawner
        ends = [self._end(self._placed[other].call) for other in (parent, *waits)]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return None
        return max(self._at(self._placed[at].call.opened_ms) - max(known), 0)

    def _think_kind(self, at: int, parent: int | None) -> ThinkKind | None:
        """A subagent's first request waited for the tool call that started it."""
        if parent is not None:
            return self._answers.think_kind(at, parent)
        spawner = self._spawner(self._placed[at].agent)
        return "tool" if self._placed[at].kind == "subagent" and spawner is not None else None
