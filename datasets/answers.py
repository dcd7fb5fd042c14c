"""Where answers stand again in the contexts that go on from them, and what came after them. Pure.

A context that begins with the whole talk of its parent has the parent's answer next. Where the
history was changed (an old result cleared, a date in the first message), an answer is known by
the ids of its tool calls, or letter for letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentx.datasets.edges import IN_LINE
from agentx.datasets.recorded import ANSWERS, Facts, Hash
from agentx.datasets.sessions import Placed
from agentx.datasets.trace.model import ThinkKind


@dataclass(frozen=True, slots=True)
class _Span:
    """Some of a call's messages, by position."""

    start: int
    end: int


class _Given:
    """The answers that one agent got and that stand in no context yet."""

    def __init__(self) -> None:
        self._by_segment: dict[int, set[int]] = {}
        self._by_id: dict[Hash, int] = {}
        self._waiting: dict[int, Placed] = {}

    def add(self, at: int, placed: Placed) -> None:
        """Remember a call's answer."""
        self._waiting[at] = placed
        for segment in placed.call.answer.tolist():
            self._by_segment.setdefault(segment, set()).add(at)
        for _, name in placed.call.answer_ids:
            self._by_id[name] = at

    def found(self, at: int) -> None:
        """A call's answer stands in a context; the first counts."""
        if (placed := self._waiting.pop(at, None)) is not None:
            for segment in placed.call.answer.tolist():
                self._by_segment[segment].discard(at)

    def owners(self, segment: int, call_id: Hash | None, parent: int, own: set[int]) -> set[int]:
        """The calls whose answers a segment may be part of: of the waiting ones, and `parent`,
        whose answer's segments are `own`."""
        if call_id is not None and call_id in self._by_id:
            return {self._by_id[call_id]}
        waiting = self._by_segment.get(segment, set())
        return waiting | {parent} if segment in own else waiting


class Answers:
    """The answers of one session; its calls are given in order of sending, with their parents."""

    def __init__(self, placed: Sequence[Placed], parents: Sequence[int | None], facts: Facts):
        self._placed = placed
        self._facts = facts
        self._spans: dict[int, _Span] = {}
        """By call: where its parent's answer stands among its messages."""
        self.tokens: dict[int, int] = {}
        """By call whose answer comes again in a later context of its agent: our count of it."""
        given: dict[str, _Given] = {}
        for at, (call, parent) in enumerate(zip(placed, parents, strict=True)):
            if call.kind not in IN_LINE:
                continue
            earlier = given.setdefault(call.agent, _Given())
            if parent is not None:
                for owner, span in self._spans_in(at, parent, earlier):
                    if owner == parent:
                        self._spans[at] = span
                    self.tokens.setdefault(owner, self._count(call.messages[span.start : span.end]))
                    earlier.found(owner)
            earlier.add(at, call)

    def think_kind(self, at: int, parent: int) -> ThinkKind | None:
        """A tool's time where results came in, a person's where words of theirs did."""
        messages = self._placed[at].messages
        span = self._spans.get(at)
        if span is not None and self._calls_a_tool(at, span):
            # Its result follows, whatever it is made of: an image, a reference, or nothing.
            return "tool"
        start = shared(messages, self._placed[parent].messages) if span is None else span.end
        new = {self._facts(segment).kind for segment in messages[start:]}
        if "tool_result" in new:
            return "tool"
        return "user" if "user" in new else None

    def _calls_a_tool(self, at: int, span: _Span) -> bool:
        """Whether an answer calls a tool of the agent's; the results of the server's own tools
        stand in the answer itself."""
        ids = _ids(self._placed[at])
        calls, done = [], set()
        for position in range(span.start, span.end):
            if self._facts(self._placed[at].messages[position]).kind == "tool_call":
                calls.append(ids.get(position))
            elif position in ids:
                done.add(ids[position])
        return any(name is None or name not in done for name in calls)

    def _spans_in(self, at: int, parent: int, given: _Given) -> Iterator[tuple[int, _Span]]:
        """Whose answers stand in a call's context for the first time, and the parent's; where."""
        before, after = self._placed[parent], self._placed[at]
        own = set(before.call.answer.tolist())
        start = shared(before.messages, after.messages)
        if start < len(before.messages):
            yield from self._in_changed(at, start, parent, own, given)
            return
        end = start
        while end < len(after.messages) and (
            self._facts(after.messages[end]).kind in ANSWERS or after.messages[end] in own
        ):
            end += 1
        if end > start:
            yield parent, _Span(start, end)

    def _in_changed(
        self, at: int, start: int, parent: int, own: set[int], given: _Given
    ) -> Iterator[tuple[int, _Span]]:
        """In a changed history: of each answer the last run of segments that are its own."""
        messages, ids = self._placed[at].messages, _ids(self._placed[at])
        runs: dict[int, _Span] = {}
        whole: dict[int, _Span] = {}
        for position in range(start, len(messages)):
            segment = messages[position]
            kind = self._facts(segment).kind
            call_id = ids.get(position) if kind == "tool_call" else None
            for owner in given.owners(segment, call_id, parent, own):
                run = runs.get(owner)
                goes_on = run is not None and run.end == position
                span = _Span(run.start if run is not None and goes_on else position, position + 1)
                known = goes_on and whole.get(owner) == run
                # Many answers begin with the same words: one with calls is known by them.
                if kind == "tool_call" or known or not self._has_calls(owner):
                    whole[owner] = span
                runs[owner] = span
        yield from whole.items()

    def _has_calls(self, at: int) -> bool:
        answer = self._placed[at].call.answer.tolist()
        return any(self._facts(segment).kind == "tool_call" for segment in answer)

    def _count(self, segments: Sequence[int]) -> int:
        return sum(self._facts(segment).tokens for segment in segments)


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading messages two conversations share."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


def _ids(placed: Placed) -> dict[int, Hash]:
    """Ids of calls and results by position among the messages."""
    before = len(placed.call.context) - len(placed.messages)
    return {position - before: name for position, name in placed.call.call_ids}
