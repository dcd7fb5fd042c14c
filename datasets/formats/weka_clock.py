"""A weka trace on one clock: when each request was sent, who spawned whom, who waited for whom.

The two writers of the form differ in the clock of subagents. In kv-cache-tester's files an
entry's `t` is when the subagent ended (its launch, where it has no duration) and its requests
count from its own first; in InferenceX's, `t` is when it started and its requests count from the
session's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentx.datasets.formats.weka_fields import Row, Subagent, Trace
from agentx.datasets.trace.model import MAIN_AGENT

_RESOLUTION_MS = 1000
"""The main agent's times are whole seconds in most files."""


@dataclass(slots=True)
class Placed:
    """A request on the session's clock. `number` is its place in order of sending."""

    row: Row
    line: Line
    entry: int
    """Where it, or its subagent, stands among the session's entries."""
    sent_ms: int
    number: int = 0
    waits_for: tuple[int, ...] | None = ()

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
    start_ms: int | None
    end_ms: int | None
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
            lines[0].placed.append(Placed(entry, lines[0], position, entry.t_ms))
        else:
            agent_id = unused(entry.agent_id or "subagent", taken)
            lines.append(_line(entry, position, agent_id, absolute=clocks[position]))
    placed = [item for line in lines for item in line.placed]
    _shift(lines, placed)
    # Of two sent at once, the one that stands first in the document was first.
    placed.sort(key=lambda item: (item.sent_ms, item.entry))
    for number, item in enumerate(placed):
        item.number = number
    for line in lines:
        line.placed.sort(key=lambda item: item.number)
    if lines[0].placed:
        lines[0].start_ms = lines[0].placed[0].sent_ms
    for line in lines[1:]:
        line.spawned_by = _spawner(line, lines[0].placed)
    _set_waits(lines)
    return lines, placed


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
    first = min((row.t_ms for row in entry.rows), default=None)
    if first is None:
        return None
    if first < entry.t_ms - _RESOLUTION_MS:
        return False
    if entry.t_ms > _RESOLUTION_MS:
        return True
    # It cannot have run for longer than the session had lasted when it ended.
    longer = entry.duration_ms is not None and entry.duration_ms > entry.t_ms + _RESOLUTION_MS
    return True if longer else None


def _line(entry: Subagent, position: int, agent_id: str, absolute: bool) -> Line:
    duration = entry.duration_ms
    start = entry.t_ms if absolute or duration is None else entry.t_ms - duration
    line = Line(agent_id, entry, position, start, None if duration is None else start + duration)
    zero = 0 if absolute else start
    line.placed = [Placed(row, line, position, zero + row.t_ms) for row in entry.rows]
    return line


def _shift(lines: list[Line], placed: list[Placed]) -> None:
    """Move the clock so that nothing happens before 0 (rounding can put a subagent there)."""
    times = [item.sent_ms for item in placed]
    times += [line.start_ms for line in lines if line.start_ms is not None]
    early = min(times, default=0)
    if early >= 0:
        return
    for item in placed:
        item.sent_ms -= early
    for line in lines:
        if line.start_ms is not None:
            line.start_ms -= early
        if line.end_ms is not None:
            line.end_ms -= early


def _spawner(line: Line, main: Sequence[Placed]) -> int | None:
    """The last main request before the entry in the document that was sent before it began."""
    assert line.entry is not None
    begun = min((item.sent_ms for item in line.placed[:1]), default=line.start_ms)
    assert begun is not None
    before = [item for item in main if item.entry < line.entry and item.sent_ms <= begun]
    return max(before, key=lambda item: item.entry).number if before else None


def _set_waits(lines: list[Line]) -> None:
    """Say of each main request which subagents' results it carries.

    That of one that ended is carried by the first main request after its entry that was not sent
    before the end. When one that was launched beside the main agent was heard is not known, so
    later main requests that carry no other result have None.
    """
    main = sorted(lines[0].placed, key=lambda item: item.entry)
    for item in main:
        item.waits_for = ()
    unknown: set[int] = set()
    for line in lines[1:]:
        if not line.placed:
            continue
        after = [item for item in main if line.entry is not None and item.entry > line.entry]
        end = _end(line)
        if end is None:
            unknown.update(item.number for item in after if item.number > line.placed[0].number)
            continue
        last = line.placed[-1].number
        for item in after:
            if item.number > last and item.sent_ms > end - _tolerance(item):
                item.waits_for = tuple(sorted((*(item.waits_for or ()), last)))
                break
    for item in main:
        if not item.waits_for and item.number in unknown:
            item.waits_for = None


def _tolerance(item: Placed) -> int:
    """How much later than its time in the file a request may have been sent, and 1."""
    return _RESOLUTION_MS if item.row.t_ms % 1000 == 0 else 1


def _end(line: Line) -> int | None:
    """When a subagent's result was there; None where that is unknown."""
    assert line.subagent is not None
    if line.subagent.status == "async_launched":
        return None
    if line.end_ms is not None:
        return line.end_ms
    ends = [item.end_ms for item in line.placed if item.end_ms is not None]
    return max(ends, default=None)
