"""What a call goes on from. Pure.

A call's parent is the earlier call of its agent whose whole conversation it carries, the longest
such; where a context was rewritten, the compaction whose answer came back in a user's message, or
the call whose answer it carries last, or else the latest. Tools and system prompt are left aside
here: a changed tool costs the prefix, not the thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentx.datasets.kinds import answer_lines, stands_in
from agentx.datasets.recorded import ANSWERS, Facts, Hash
from agentx.datasets.sessions import Placed
from agentx.datasets.trace.model import Kind

IN_LINE: frozenset[Kind] = frozenset({"main", "subagent", "compaction"})
"""Kinds that are part of an agent's talk; the others have no parent."""


def connect(placed: Sequence[Placed], facts: Facts) -> list[tuple[int, float] | None]:
    """For each call, given in order of sending, the position of its parent and how sure that is;
    None for an agent's first call, and for those that are not part of its talk."""
    lines: dict[str, _Line] = {}
    return [
        lines.setdefault(call.agent, _Line(placed, facts)).take(at)
        if call.kind in IN_LINE
        else None
        for at, call in enumerate(placed)
    ]


class _Line:
    """One agent's talk so far: a tree of its conversations, and who answered what."""

    def __init__(self, placed: Sequence[Placed], facts: Facts) -> None:
        self._placed = placed
        self._facts = facts
        self._nodes: dict[tuple[int, int], int] = {}
        self._ends: dict[int, list[int]] = {}
        """Calls whose conversation ends at a node."""
        self._answers: dict[int, list[int]] = {}
        """Calls by the segments of their answers."""
        self._by_id: dict[Hash, int] = {}
        """Calls by the ids of the tool calls in their answers."""
        self._compaction: int | None = None
        """The latest."""
        self.calls: list[int] = []

    def take(self, at: int) -> tuple[int, float] | None:
        """Add the next call; returns its parent and how sure that is."""
        parent = self._parent(at) if self.calls else None
        self._add(at)
        return parent

    def _parent(self, at: int) -> tuple[int, float]:
        messages = self._placed[at].messages
        node, whole, whole_length = 0, None, 0
        for length, segment in enumerate(messages, start=1):
            next_node = self._nodes.get((node, segment))
            if next_node is None:
                break
            node = next_node
            if node in self._ends:
                whole, whole_length = self._best(self._ends[node], messages[length:]), length
        summed_up = self._summed_up(at)
        if summed_up is not None and (whole is None or whole < summed_up):
            return summed_up, 0.9
        answered = self._last_answered(at)
        if whole is not None and (
            answered is None or answered[0] == whole or answered[1] < whole_length
        ):
            return whole, 1.0
        if answered is not None:
            return answered[0], 0.9
        return self.calls[-1], 0.5

    def _best(self, ends: Sequence[int], rest: Sequence[int]) -> int:
        """Of calls with the same conversation, the one whose answer follows; else the latest."""
        for call in reversed(ends):
            # Not all of an answer need come back: many agents leave the thinking out.
            if rest and rest[0] in self._placed[call].call.answer.tolist():
                return call
        return ends[-1]

    def _last_answered(self, at: int) -> tuple[int, int] | None:
        """The call whose answer comes last in this one's conversation, and where that is."""
        call, messages = self._placed[at].call, self._placed[at].messages
        before = len(call.context) - len(messages)
        ids = {position - before: name for position, name in call.call_ids}
        for position in range(len(messages) - 1, -1, -1):
            segment = messages[position]
            kind = self._facts(segment).kind
            if kind == "tool_call" and ids.get(position) in self._by_id:
                return self._by_id[ids[position]], position
            if kind in ANSWERS and segment in self._answers:
                return self._answers[segment][-1], position
        return None

    def _summed_up(self, at: int) -> int | None:
        """The latest compaction, if its answer stands in a user's message that is new here."""
        if self._compaction is None:
            return None
        said = _new_user_lines(self._placed[at], self._placed[self.calls[-1]], self._facts)
        lines = answer_lines(self._placed[self._compaction].call, self._facts)
        return self._compaction if stands_in(lines, said) else None

    def _add(self, at: int) -> None:
        node = 0
        for segment in self._placed[at].messages:
            node = self._nodes.setdefault((node, segment), len(self._nodes) + 1)
        self._ends.setdefault(node, []).append(at)
        call = self._placed[at].call
        for segment in call.answer.tolist():
            self._answers.setdefault(segment, []).append(at)
        for _, name in call.answer_ids:
            self._by_id[name] = at
        if self._placed[at].kind == "compaction":
            self._compaction = at
        self.calls.append(at)


def _new_user_lines(placed: Placed, before: Placed, facts: Facts) -> frozenset[Hash]:
    known = set(before.messages)
    new = (facts(s) for s in placed.messages if s not in known)
    return frozenset().union(*(f.mentions for f in new if f.kind == "user"))
