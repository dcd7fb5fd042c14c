"""What started a subagent, and who waited for it. Pure.

Strongest first: a tool's result names the agent by its id; the agent begins with the prompt that
a tool call gave; nothing but the order of sending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentx.datasets.edges import IN_LINE
from agentx.datasets.recorded import Facts, Hash
from agentx.datasets.sessions import Placed
from agentx.datasets.trace.model import MAIN_AGENT, EdgeEvidence

_SLACK_MS = 50.0
"""An answer's end may be seen this long after whoever waited for it has sent on."""


@dataclass(frozen=True, slots=True)
class Start:
    """What started a subagent; None where no call can have."""

    spawner: int | None
    evidence: EdgeEvidence
    confidence: float
    call_ids: frozenset[Hash] = field(default=frozenset())
    """Of the tool call that did, where that is known."""


@dataclass(frozen=True, slots=True)
class _News:
    """A segment that a call carries and no call of its agent before it."""

    at: int
    segment: int
    call_id: Hash | None


class Spawns:
    """The subagents of one session; its calls are given in order of sending."""

    def __init__(self, placed: Sequence[Placed], facts: Facts) -> None:
        self._placed = placed
        self._facts = facts
        self._calls: dict[str, list[int]] = {}
        for at, call in enumerate(placed):
            if call.kind in IN_LINE:
                self._calls.setdefault(call.agent, []).append(at)
        self._by_call_id = {
            name: at for at, call in enumerate(placed) for _, name in call.call.answer_ids
        }
        self._news = list(_news(placed, facts))
        self.starts = {
            agent: self._start(agent, calls[0])
            for agent, calls in self._calls.items()
            if agent != MAIN_AGENT
        }
        """By agent."""

    def waits(self) -> dict[int, tuple[int, ...]]:
        """By call: the last call of each subagent whose result it is the first to carry."""
        found: dict[int, set[int]] = {}
        for news in self._news:
            mentions = self._facts(news.segment).mentions
            for agent, start in self.starts.items():
                own_id = self._own_id(agent)
                named = own_id is not None and own_id in mentions
                if (named or news.call_id in start.call_ids) and (
                    last := self._finished(agent, news.at)
                ) is not None:
                    found.setdefault(news.at, set()).add(last)
        return {at: tuple(sorted(last)) for at, last in found.items()}

    def _start(self, agent: str, first: int) -> Start:
        own_id = self._own_id(agent)
        for news in self._news:
            spawner = self._by_call_id.get(news.call_id) if news.call_id is not None else None
            if (
                spawner is not None
                and spawner < first
                and own_id is not None
                and own_id in self._facts(news.segment).mentions
                and self._placed[spawner].agent != agent
            ):
                return Start(spawner, "id", 1.0, frozenset({news.call_id or 0}))
        return self._by_prompt(agent, first) or self._by_position(agent, first)

    def _by_prompt(self, agent: str, first: int) -> Start | None:
        said = map(self._facts, self._placed[first].messages)
        texts = frozenset[Hash]().union(*(f.texts for f in said if f.kind == "user"))
        for at in range(first - 1, -1, -1):
            call = self._placed[at].call
            if self._placed[at].agent == agent:
                continue
            ids = dict(call.answer_ids)
            started = [
                position
                for position, segment in enumerate(call.answer.tolist())
                if self._facts(segment).kind == "tool_call"
                and texts & self._facts(segment).mentions
            ]
            if started:
                names = frozenset(ids[position] for position in started if position in ids)
                return Start(at, "prompt", 0.95, names)
        return None

    def _by_position(self, agent: str, first: int) -> Start:
        for at in range(first - 1, -1, -1):
            placed = self._placed[at]
            if placed.agent != agent and placed.kind in IN_LINE and placed.call.answer_ids:
                return Start(at, "position", 0.5)
        return Start(None, "position", 0.0)

    def _own_id(self, agent: str) -> Hash | None:
        first = self._placed[self._calls[agent][0]]
        return first.call.own_id if first.evidence == "id" else None

    def _finished(self, agent: str, at: int) -> int | None:
        """The agent's last call before `at`, if its work was done by then.

        One that called a tool then went on if it has later calls, and else ended so: its report was
        the call, or it was stopped after so many turns.
        """
        calls = self._calls[agent]
        before = [call for call in calls if call < at]
        if not before or agent == self._placed[at].agent:
            return None
        last = self._placed[before[-1]].call
        called = any(self._facts(s).kind == "tool_call" for s in last.answer.tolist())
        goes_on = called and calls[-1] > at
        late = last.end_ms is not None and (
            last.opened_ms + last.end_ms > self._placed[at].call.opened_ms + _SLACK_MS
        )
        return None if goes_on or late else before[-1]


def _news(placed: Sequence[Placed], facts: Facts) -> Iterator[_News]:
    """Results and user messages, each where its agent carries it first."""
    seen: dict[str, set[tuple[int, Hash | None]]] = {}
    for at, call in enumerate(placed):
        if call.kind not in IN_LINE:
            continue
        known = seen.setdefault(call.agent, set())
        before = len(call.call.context) - len(call.messages)
        ids = dict(call.call.call_ids)
        for position, segment in enumerate(call.messages, start=before):
            if facts(segment).kind in ("tool_result", "user", "other"):
                mark = (segment, ids.get(position))
                if mark not in known:
                    known.add(mark)
                    yield _News(at, *mark)
