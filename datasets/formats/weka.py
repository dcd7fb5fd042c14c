"""A weka trace as a session: the tree of its requests, with block integers of the data set."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats.weka_clock import Line, Placed, milliseconds, place
from agentx.datasets.formats.weka_fields import Row, Trace
from agentx.datasets.trace.block_runs import Blocks, Linked, common_prefix, link
from agentx.datasets.trace.model import Agent, Request, Session, ThinkKind

NAME = "weka"

_NOTHING = -1
"""Stands for what comes before a request's first block."""


@dataclass(slots=True)
class _Ids:
    """A source's block ids: the data set's integers, and the integers that they follow."""

    integers: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)


class BlockNumbers:
    """Gives a source's block ids the data set's integers: dense, in order of first use."""

    def __init__(self) -> None:
        self._count = 0
        self._shared = _Ids()

    def ids_of(self, trace: Trace) -> _Ids:
        """The ids known to a trace: none, or those of all traces that share theirs."""
        return self._shared if trace.shared_ids else _Ids()

    def number(self, ids: list[int], before: int, known: _Ids, where: str) -> list[int]:
        """Integers of ids that follow the integer `before` in a request.

        An id stands for the whole prefix up to it, so it always follows the same one.
        """
        if known.integers.keys().isdisjoint(ids) and len(set(ids)) == len(ids):
            numbers = list(range(self._count, self._count + len(ids)))
            known.integers.update(zip(ids, numbers, strict=True))
            known.before.update(zip(ids, (before, *numbers), strict=False))
            self._count += len(ids)
            return numbers
        numbers = []
        for name in ids:
            number = known.integers.setdefault(name, self._count)
            self._count += number == self._count
            elsewhere = known.before.setdefault(name, before)
            if elsewhere != before:
                raise DatasetError(
                    f"{where}: block id {name} follows {_shown(elsewhere, known)} elsewhere but "
                    f"{_shown(before, known)} here, so it does not stand for one prefix"
                )
            numbers.append(number)
            before = number
        return numbers


@dataclass(slots=True)
class _Latest:
    """An agent's latest request, whose context its next one extends."""

    number: int
    ids: Blocks
    linked: Linked


def to_session(trace: Trace, numbers: BlockNumbers, session_id: str) -> Session:
    """Make a session of a trace.

    Raises:
        DatasetError: a block id does not stand for one prefix.
    """
    lines, placed = place(trace)
    known = numbers.ids_of(trace)
    latest: dict[str, _Latest] = {}
    requests: list[Request] = []
    for item in placed:
        parent = latest.get(item.line.agent_id)
        linked, tail_id = _blocks(item.row, parent, known, numbers)
        latest[item.line.agent_id] = _Latest(item.number, item.row.ids, linked)
        requests.append(
            _request(session_id, item, parent, linked, tail_id, placed, trace.block_size)
        )
    return Session(
        session_id=session_id,
        source=NAME,
        agents=tuple(_agent(session_id, line, trace) for line in lines),
        requests=tuple(requests),
    )


def _blocks(
    row: Row, parent: _Latest | None, known: _Ids, numbers: BlockNumbers
) -> tuple[Linked, int | None]:
    """The request's block integers against its parent's, and that of a partial last block."""
    keep = common_prefix(parent.ids, row.ids) if parent else 0
    kept = parent.linked.blocks[:keep] if parent else row.ids[:0]
    before = int(kept[-1]) if keep else _NOTHING
    new = numbers.number(row.ids[keep:].tolist(), before, known, row.where)
    linked = link(
        np.concatenate([kept, np.array(new, dtype=np.int64)]), parent.linked if parent else None
    )
    if row.tail_id is None:
        return linked, None
    before = int(linked.blocks[-1]) if linked.blocks.size else _NOTHING
    return linked, numbers.number([row.tail_id], before, known, row.where)[0]


def _request(
    session_id: str,
    item: Placed,
    parent: _Latest | None,
    linked: Linked,
    tail_id: int | None,
    placed: list[Placed],
    block_size: int,
) -> Request:
    row, line = item.row, item.line
    is_main = line.subagent is None
    keep = linked.keep_blocks
    return Request(
        session_id=session_id,
        request=item.number,
        agent_id=line.agent_id,
        kind="main" if is_main else "subagent",
        context_tokens=row.tokens,
        blocks=linked.blocks.size,
        keyframe=linked.keyframe,
        append=linked.append,
        parent=parent.number if parent else None,
        waits_for=item.waits_for,
        spawned_by=line.spawned_by,
        model=row.model,
        sent_ms=item.sent_ms,
        first_output_ms=None if row.ttft_ms is None else item.sent_ms + row.ttft_ms,
        end_ms=item.end_ms,
        think_ms=_think_ms(item, parent.number if parent else line.spawned_by, placed),
        think_source_ms=row.think_ms,
        think_kind=_think_kind(row, is_main),
        output_tokens=row.output_tokens,
        keep_tokens=None if keep is None else keep * block_size,
        keep_blocks=keep,
        tail_id=tail_id,
        stop_reason=row.stop,
        input_types=row.input_types,
        output_types=row.output_types,
        streamed=row.streamed,
    )


def _think_ms(item: Placed, after: int | None, placed: list[Placed]) -> int | None:
    """From the latest end of what came before to the send; None where an end is unknown."""
    if after is None:
        return None
    latest = 0
    for number in (after, *(item.waits_for or ())):
        end = placed[number].end_ms
        if end is None:
            return None
        latest = max(latest, end)
    # Times are rounded to seconds, so that a request may seem to precede what it followed.
    return max(item.sent_ms - latest, 0)


def _think_kind(row: Row, is_main: bool) -> ThinkKind | None:
    """Whose time passed before the request; only the main agent is spoken to by a person."""
    if row.input_types is None:
        return None
    if "tool_result" in row.input_types:
        return "tool"
    return "user" if is_main and row.input_types == ("text",) else None


def _agent(session_id: str, line: Line, trace: Trace) -> Agent:
    entry = line.subagent
    start = None if line.start_us is None else milliseconds(line.start_us)
    end = None if line.end_us is None else milliseconds(line.end_us)
    if end is None and line.placed:
        end = line.placed[-1].end_ms
    if entry is None:
        return Agent(
            session_id,
            line.agent_id,
            start_ms=start,
            end_ms=end,
            tool_tokens=trace.tool_tokens,
            system_tokens=trace.system_tokens,
        )
    return Agent(
        session_id,
        line.agent_id,
        spawned_by=line.spawned_by,
        agent_type=entry.agent_type,
        start_ms=start,
        end_ms=end,
        duration_ms=entry.duration_ms,
        status=entry.status,
        entry=line.entry,
        tool_tokens=entry.tool_tokens,
        system_tokens=entry.system_tokens,
        total_tokens=entry.total_tokens,
        tool_use_count=entry.tool_use_count,
    )


def _shown(integer: int, known: _Ids) -> str:
    found = next((name for name, number in known.integers.items() if number == integer), None)
    return "nothing" if found is None else f"id {found}"
