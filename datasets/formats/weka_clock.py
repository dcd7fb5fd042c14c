"""A weka trace on one clock: when each request was sent, who spawned whom, who waited for whom.

The two writers of the form differ in the clock of subagents. In kv-cache-tester's files an
entry's `t` is when the subagent ended (its launch, where it has no duration) and its requests
count from its own first; in InferenceX's, `t` is when it started and its requests count from the
session's start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentx.datasets.formats.weka_fields import Row, Subagent, Trace
from agentx.datasets.trace.model import MAIN_AGENT

_SECOND = 1_000_000
"""In microseconds, finer than any source, so that order is as in the source. It is also the
resolution of the main agent's times in most files."""


@dataclass(slots=True)
class Placed:
    """A request on the session's clock. `number` is its place in order of sending."""

    row: Row
    line: Line
    entry: int
    """Where it, or its subagent, stands among the session's entries."""
    sent_us: int
    number: int = 0
    waits_for: tuple[int, ...] | None = ()

    @property
    def sent_ms(self) -> int:
        """When it was sent."""
        return milliseconds(self.sent_us)

    @property
    def end_ms(self) -> int | None:
        """When its response ended; None where the source does not say."""
        return None if self.row.api_ms is None else self.sent_ms + self.row.api_ms


@dataclass(slots=True)
class Line:
    """An agent's requests on the session's clock, in order of sending."""

    agent_id: str
    subagent: Subagent | None
    entry: int | None
    start_us: int | None
    end_us: int | None
    """As the source says; None where it does not."""
    placed: list[Placed] = field(default_factory=list)
    spawned_by: int | None = None


def place(trace: Trace) -> tuple[list[Line], list[Placed]]:
    """The trace's agents, main first, and all its requests in order of sending."""
    lines = [Line(MAIN_AGENT, None, None, None, None)]
    taken = {MAIN_AGENT}
    clocks = _clocks(trace)
    for position, entry in enumerate(trace.entries):
        if isinstance(entry, Row):
            lines[0].placed.append(Placed(entry, lines[0], position, entry.t_us))
        else:
            agent_id = unused(entry.agent_id or "subagent", taken)
            lines.append(_line(entry, position, agent_id, absolute=clocks[position]))
    placed = [item for line in lines for item in line.placed]
    _shift(lines, placed)
    # Of two sent at once, the one that stands first in the document was first.
    placed.sort(key=lambda item: (item.sent_us, item.entry))
    for number, item in enumerate(placed):
        item.number = number
    for line in lines:
        line.placed.sort(key=lambda item: item.number)
    if lines[0].placed:
        lines[0].start_us = lines[0].placed[0].sent_us
    main = sorted(lines[0].placed, key=lambda item: item.entry)
    for line in lines[1:]:
        line.spawned_by = _spawner(line, main)
    _set_waits(lines[1:], main)
    return lines, placed


def milliseconds(microseconds: int) -> int:
    """Rounded, so that the order of times stays."""
    return (microseconds + 500) // 1000


def unused(name: str, taken: set[str]) -> str:
    """The name, or the first of name-2, name-3, … that is not taken; takes it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def _clocks(trace: Trace) -> dict[int, bool]:
    """By entry of a subagent: whether its requests count from the session's start.

    Relative times start at 0, absolute ones not before the entry. Where both are 0, within their
    resolution, the session's other subagents decide, then its ids, which count from 0 in files
    with absolute times.
    """
    entries = [(n, e) for n, e in enumerate(trace.entries) if isinstance(e, Subagent)]
    sure = {n: absolute for n, e in entries if (absolute := _absolute(e)) is not None}
    if sure:
        otherwise = 2 * sum(sure.values()) > len(sure)
    else:
        otherwise = any(e.ids.size and e.ids[0] == 0 for e in trace.entries if isinstance(e, Row))
    return {n: sure.get(n, otherwise) for n, _ in entries}


def _absolute(entry: Subagent) -> bool | None:
    first = min((row.t_us for row in entry.rows), default=None)
    if first is None:
        return None
    if first < entry.t_us - _SECOND:
        return False
    if entry.t_us > _SECOND:
        return True
    # It cannot have run for longer than the session had lasted when it ended.
    longer = entry.duration_ms is not None and 1000 * entry.duration_ms > entry.t_us + _SECOND
    return True if longer else None


def _line(entry: Subagent, position: int, agent_id: str, absolute: bool) -> Line:
    duration = None if entry.duration_ms is None else 1000 * entry.duration_ms
    start = entry.t_us if absolute or duration is None else entry.t_us - duration
    line = Line(agent_id, entry, position, start, None if duration is None else start + duration)
    zero = 0 if absolute else start
    line.placed = [Placed(row, line, position, zero + row.t_us) for row in entry.rows]
    return line


def _shift(lines: list[Line], placed: list[Placed]) -> None:
    """Move the clock so that nothing happens before 0 (rounding can put a subagent there)."""
    times = [item.sent_us for item in placed]
    times += [line.start_us for line in lines if line.start_us is not None]
    early = min(times, default=0)
    if early >= 0:
        return
    for item in placed:
        item.sent_us -= early
    for line in lines:
        if line.start_us is not None:
            line.start_us -= early
        if line.end_us is not None:
            line.end_us -= early


def _spawner(line: Line, main: Sequence[Placed]) -> int | None:
    """The last main request before the entry in the document that was sent before it began.

    `main` is in the order of the document, here and below.
    """
    begun = line.placed[0].sent_us if line.placed else line.start_us
    assert begun is not None
    for item in reversed(main[: _after(line, main)]):
        if item.sent_us <= begun:
            return item.number
    return None


def _set_waits(lines: Sequence[Line], main: Sequence[Placed]) -> None:
    """Say of each main request which subagents' results it carries.

    That of one that ended is carried by the first main request after its entry that was not sent
    before the end. When one that was launched beside the main agent was heard is not known, so
    later main requests that carry no other result have None.
    """
    unknown: set[int] = set()
    for line in lines:
        if not line.placed:
            continue
        end, last = _end(line), line.placed[-1].number
        after = main[_after(line, main) :]
        if end is None:
            first = line.placed[0].number
            unknown.update(item.number for item in after if item.number > first)
            continue
        for item in after:
            if item.number > last and item.sent_us > end - _tolerance(item):
                item.waits_for = tuple(sorted((*(item.waits_for or ()), last)))
                break
    for item in main:
        if not item.waits_for and item.number in unknown:
            item.waits_for = None


def _after(line: Line, main: Sequence[Placed]) -> int:
    """Where the main requests begin that stand after a subagent's entry."""
    return bisect_left(main, line.entry, key=lambda item: item.entry)


def _tolerance(item: Placed) -> int:
    """How much later than its time in the file a request may have been sent, and 1."""
    return _SECOND if item.row.t_us % _SECOND == 0 else 1


def _end(line: Line) -> int | None:
    """When a subagent's result was there; None where that is unknown."""
    assert line.subagent is not None
    if line.subagent.status == "async_launched":
        return None
    if line.end_us is not None:
        return line.end_us
    ends = [1000 * item.end_ms for item in line.placed if item.end_ms is not None]
    return max(ends, default=None)
