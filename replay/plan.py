"""What is sent and what it waits for: lanes, cut lines, dependencies. Pure.

A plan says nothing about when: `agentx.replay.session` gives it times. The rules and their
reasons are in docs/design/0001-whole-path.md.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from agentx.datasets.trace.model import Kind, Request, Session
from agentx.replay.errors import ReplayError


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request that will be sent."""

    index: int
    """`request` of the data set."""
    agent_id: str
    kind: Kind
    parent: int | None
    """The kept request whose context it extends; None where there is none."""
    after: tuple[int, ...]
    """Kept requests that must have ended first, ascending; empty: due from the session's start."""
    think_ms: int | None
    """From the latest end among `after` to the send, as recorded; None where unknown."""
    gap_from: int | None
    """The request from whose send `gap_ms` counts; None: from the session's start."""
    gap_ms: int | None
    """The recorded gap between two sends, used where `think_ms` is unknown."""
    context_tokens: int
    output_tokens: int
    """To ask for; at least 1."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is not sent, and why."""

    lines: int = 0
    """Agents that end before their last request, or never start, for `max_context`."""
    requests: int = 0
    """Requests of those lines that are not sent."""
    tokens: int = 0
    """Their context tokens."""
    not_generation: int = 0
    """Calls that only count tokens: they are no load on the model."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The requests of one session that are sent, ascending by index."""

    session_id: str
    requests: tuple[PlannedRequest, ...]
    cut: Cut


def assign_lanes(weights: Sequence[int], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Deal sessions to lanes: in order, each to the lane with the least work so far.

    `weights` are the sessions' work (requests). Ties go to the lowest lane. Returns for each lane
    the sessions' positions in `weights`, in the order in which the lane runs them; lanes that get
    none are empty.
    """
    if lanes < 1:
        raise ReplayError(f"a replay needs at least one session at once, not {lanes}")
    dealt: list[list[int]] = [[] for _ in range(lanes)]
    least = [(0, lane) for lane in range(lanes)]
    for position, weight in enumerate(weights):
        work, lane = least[0]
        dealt[lane].append(position)
        heapq.heapreplace(least, (work + weight, lane))
    return tuple(map(tuple, dealt))


def plan_session(session: Session, *, max_context: int | None = None) -> SessionPlan:
    """Decide which requests of a session are sent and what each waits for.

    An agent's line ends before its first request longer than `max_context` tokens; an agent that
    a cut request spawned is cut whole; who waits for a cut request waits for the last kept one
    before it of that agent, if any. Calls that only count tokens are not sent.

    Raises ReplayError where a request depends on a later one.
    """
    return _Planner(session, max_context).plan()


def shortest_start(session: Session) -> int | None:
    """The least `max_context` that leaves anything of a session to send; None: nothing ever is."""
    sent = plan_session(session).requests
    firsts = {planned.agent_id: planned for planned in reversed(sent)}
    indices = {planned.index for planned in sent}
    return min(
        # Who was spawned by a request that is sent goes with it.
        (
            first.context_tokens
            for first in firsts.values()
            if session.requests[first.index].spawned_by not in indices
        ),
        default=None,
    )


class _Planner:
    def __init__(self, session: Session, max_context: int | None) -> None:
        self.session = session
        self.max_context = max_context
        self.kept: set[int] = set()
        self.line: dict[str, list[int]] = {}
        """Kept requests of each agent so far, ascending."""
        self.ended: dict[int, int] = _ends(session)

    def plan(self) -> SessionPlan:
        cut_agents: set[str] = set()
        cut_requests: set[int] = set()
        tokens = counting = 0
        planned: list[PlannedRequest] = []
        for request in self.session.requests:
            self._check(request)
            if request.kind == "count_tokens":
                counting += 1
            elif request.agent_id in cut_agents or self._is_cut(request, cut_requests):
                cut_agents.add(request.agent_id)
                cut_requests.add(request.request)
                tokens += request.context_tokens
            else:
                planned.append(self._place(request))
                self.kept.add(request.request)
                self.line.setdefault(request.agent_id, []).append(request.request)
        cut = Cut(len(cut_agents), len(cut_requests), tokens, counting)
        return SessionPlan(self.session.session_id, tuple(planned), cut)

    def _is_cut(self, request: Request, cut_requests: set[int]) -> bool:
        too_long = self.max_context is not None and request.context_tokens > self.max_context
        return too_long or request.spawned_by in cut_requests

    def _check(self, request: Request) -> None:
        for other in (request.parent, request.spawned_by, *(request.waits_for or ())):
            if other is not None and not 0 <= other < request.request:
                raise ReplayError(
                    f"session {self.session.session_id}: request {request.request} depends on "
                    f"request {other}, which is not before it; import or build the data set again"
                )

    def _place(self, request: Request) -> PlannedRequest:
        parent = self._kept_before(request.parent)
        before = self._start_of_line(request) if parent is None else parent
        waited = (self._kept_before(other) for other in request.waits_for or ())
        after = {other for other in (before, *waited) if other is not None}
        # Think time as the data set has it counts from what it names; a stand-in ended elsewhere.
        named = request.spawned_by if request.parent is None else request.parent
        own = before is not None and before == named
        think_ms = request.think_ms if own else self._recorded_think(request, after)
        gap_from = before if before is not None else max(after, default=None)
        return PlannedRequest(
            index=request.request,
            agent_id=request.agent_id,
            kind=request.kind,
            parent=parent,
            after=tuple(sorted(after)),
            think_ms=think_ms,
            gap_from=gap_from,
            gap_ms=self._gap(request, gap_from),
            context_tokens=request.context_tokens,
            output_tokens=_output_tokens(request),
        )

    def _kept_before(self, index: int | None) -> int | None:
        """The request itself if it is sent, else the last of its agent before it that is."""
        if index is None or index in self.kept:
            return index
        line = self.line.get(self.session.requests[index].agent_id, [])
        before = bisect_left(line, index)
        return line[before - 1] if before else None

    def _start_of_line(self, request: Request) -> int | None:
        """What a request without a parent waits for: its agent's spawner, or an anchor."""
        spawner = self._kept_before(request.spawned_by)
        if spawner is not None and request.agent_id not in self.line:
            return spawner
        anchor = self._anchor(request)
        return spawner if anchor is None else anchor

    def _anchor(self, request: Request) -> int | None:
        """The request that had ended last when this one was sent; None: none had."""
        sent = request.sent_ms
        if sent is None:
            return None
        ended = [
            (self.ended[other], other)
            for other in self.kept
            if other in self.ended and self.ended[other] <= sent
        ]
        return max(ended)[1] if ended else None

    def _recorded_think(self, request: Request, after: set[int]) -> int | None:
        """Think time from recorded ends, for dependencies that are not the trace's own."""
        ends = [self.session.requests[other].end_ms for other in after]
        if not ends or request.sent_ms is None:
            return None
        known = [end for end in ends if end is not None]
        return max(0, request.sent_ms - max(known)) if len(known) == len(ends) else None

    def _gap(self, request: Request, gap_from: int | None) -> int | None:
        """Recorded time between the send of `gap_from` (or of the session's first) and this one."""
        before = self.session.requests[0 if gap_from is None else gap_from].sent_ms
        if request.sent_ms is None or before is None:
            return None
        return max(0, request.sent_ms - before)


def _ends(session: Session) -> dict[int, int]:
    """When each request had ended at the latest: its recorded end, or its first child's send."""
    ends: dict[int, int] = {}
    for request in session.requests:
        if request.end_ms is not None:
            ends[request.request] = request.end_ms
        parent, sent = request.parent, request.sent_ms
        if parent is not None and sent is not None and session.requests[parent].end_ms is None:
            ends[parent] = min(sent, ends.get(parent, sent))
    return ends


def _output_tokens(request: Request) -> int:
    tokens = request.output_tokens
    return max(1, (tokens if tokens is not None else request.output_context_tokens) or 1)
