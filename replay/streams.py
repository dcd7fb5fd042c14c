"""What each request's context is made of: which earlier one it goes on from, and what is new.

A context is a stream of trace tokens: full blocks, each named by its integer, then a tail, which
the trace does not name. A tail is the beginning of the block with which a child goes on, so that
the child's text continues its parent's; where no child does, it is text of its own. Pure; the
reasons are in docs/design/0002-synthetic-text.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from agentx.datasets.trace.block_runs import Blocks, common_prefix, encode
from agentx.datasets.trace.model import Session
from agentx.replay.plan import SessionPlan
from agentx.replay.tails import Part, Tail, common, fill, head
from agentx.replay.words import own_name


@dataclass(slots=True)
class Stream:
    """One request's context, as what it shares with an earlier one and what follows."""

    parent: int | None
    """The kept request whose context it extends."""
    tokens: int
    """Of the context, at least 1."""
    full: int
    """Full blocks of the context."""
    donor: int | None
    """The kept request with which it shares most; its parent where none shares more."""
    keep_blocks: int
    """Leading full blocks that it shares with the donor."""
    first: int
    """Position of `names[0]` among the full blocks: `keep_blocks`, 0 without a parent."""
    names: Blocks
    parent_blocks: int | None
    """Full blocks of its parent, where it keeps all of them; else None."""
    next_name: int | None
    """The block that follows those, if it has one."""
    tail_name: int | None
    """The trace's own integer for the tail, if it gives one."""
    tail: Tail = ()
    """What follows the full blocks."""
    keep: int = 0
    """Leading tokens that it shares with the donor."""

    def part(self, position: int, block_size: int) -> Tail:
        """What stands after `position` full blocks: a block of `names`, or the tail."""
        if position < self.full:
            return (Part(int(self.names[position - self.first]), block_size),)
        return self.tail


def streams(
    session: Session, plan: SessionPlan, lists: Iterable[Blocks], block_size: int
) -> dict[int, Stream]:
    """The stream of every kept request, by index, ascending.

    `lists` are the block integers of every request of the session, in order. Work is proportional
    to the blocks of all contexts; what is returned, to those that are new.
    """
    found = _without_tails(session, plan, lists, block_size)
    _settle_tails(session, found, block_size)
    for stream in found.values():
        stream.keep = stream.keep_blocks * block_size
        if stream.donor is not None and stream.keep_blocks == found[stream.donor].full:
            follows = stream.part(stream.keep_blocks, block_size)
            stream.keep += common(found[stream.donor].tail, follows)
    return found


def _without_tails(
    session: Session, plan: SessionPlan, lists: Iterable[Blocks], block_size: int
) -> dict[int, Stream]:
    parents = {request.index: request.parent for request in plan.requests}
    last_child = {parent: index for index, parent in parents.items()}
    held: dict[int, Blocks] = {}
    found: dict[int, Stream] = {}
    seen = _Seen(found)
    for request, blocks in zip(session.requests, lists, strict=True):
        index = request.request
        if index not in parents:
            continue
        parent = parents[index]
        tokens = max(1, request.context_tokens)
        full = min(blocks.size, tokens // block_size)
        ids = blocks[:full]
        keep = 0 if parent is None else common_prefix(held[parent], ids)
        keeps_parent = parent is not None and keep == found[parent].full
        next_name = int(ids[keep]) if keeps_parent and keep < full else None
        donor, keep_blocks = seen.deepest(ids, parent if keep or keeps_parent else None, keep)
        first = 0 if parent is None else keep_blocks
        found[index] = Stream(
            parent=parent,
            tokens=tokens,
            full=full,
            donor=donor,
            keep_blocks=keep_blocks,
            first=first,
            names=ids[first:].copy(),
            parent_blocks=keep if keeps_parent else None,
            next_name=next_name,
            # A source may list a partial last block among the full ones.
            tail_name=request.tail_id if full == blocks.size else int(blocks[full]),
        )
        seen.add(index, ids[keep_blocks:])
        if index in last_child:
            held[index] = ids
        if parent is not None and last_child[parent] == index:
            del held[parent]
    return found


class _Seen:
    """Which request first had a block, as runs of consecutive integers."""

    def __init__(self, found: dict[int, Stream]) -> None:
        self._found = found
        self._starts: list[int] = []
        self._runs: list[tuple[int, int]] = []
        """By run: the integer after its last, and the request."""

    def add(self, request: int, new: Blocks) -> None:
        """Note the blocks that no earlier request had."""
        for start, length in zip(*encode(new), strict=True):
            at = bisect_right(self._starts, start)
            self._starts.insert(at, start)
            self._runs.insert(at, (start + length, request))

    def deepest(self, ids: Blocks, donor: int | None, keep: int) -> tuple[int | None, int]:
        """The request that shares most leading blocks, and how many; `donor` if none has more."""
        while keep < ids.size:
            other = self._first_with(int(ids[keep]))
            if other is None:
                break
            # An integer stands for all blocks before it too, but a trace may break that rule.
            shared = common_prefix(self._blocks(other), ids)
            if shared <= keep:
                break
            donor, keep = other, shared
        return donor, keep

    def _first_with(self, block: int) -> int | None:
        at = bisect_right(self._starts, block) - 1
        return self._runs[at][1] if at >= 0 and block < self._runs[at][0] else None

    def _blocks(self, index: int) -> Blocks:
        """A request's full blocks, put together from those that went before."""
        parts: list[Blocks] = []
        size = self._found[index].full
        at: int | None = index
        while at is not None and size:
            stream = self._found[at]
            parts.append(stream.names[: max(0, size - stream.first)])
            size = min(size, stream.first)
            at = stream.donor
        return np.concatenate(parts[::-1]) if parts else np.empty(0, np.int64)


def _settle_tails(session: Session, found: dict[int, Stream], block_size: int) -> None:
    """Give every stream its tail, children before parents.

    Of several children, the one that keeps most of the tail decides, the earliest of those.
    """
    children: dict[int, list[int]] = {}
    named: dict[int, Tail] = {}
    """By the trace's integer of a tail: the text of the first request whose child goes on."""
    for index in reversed(found):
        stream = found[index]
        size = stream.tokens - stream.full * block_size
        tails = [
            head(
                _goes_on(found[child], block_size),
                min(size, _kept_of_tail(session, index, child, stream.full * block_size)),
            )
            for child in reversed(children.get(index, ()))
        ]
        tail = max(tails, key=_length, default=())
        if tail and stream.tail_name is not None:
            named[stream.tail_name] = tail
        own = own_name(session.session_id, index)
        stream.tail = fill(tail, size, own if stream.tail_name is None else stream.tail_name)
        if stream.parent is not None and stream.parent_blocks is not None:
            children.setdefault(stream.parent, []).append(index)
    for stream in found.values():
        if stream.tail_name in named:
            size = stream.tokens - stream.full * block_size
            stream.tail = fill(head(named[stream.tail_name], size), size, stream.tail_name)


def _length(tail: Tail) -> int:
    return tail[-1].end if tail else 0


def _goes_on(child: Stream, block_size: int) -> Tail:
    """What stands in a child where its parent's tail stands in the parent."""
    if child.next_name is None:
        return child.tail
    return (Part(child.next_name, block_size),)


def _kept_of_tail(session: Session, parent: int, child: int, before: int) -> int:
    """How many tokens of its parent's tail, which begins at `before`, a child keeps.

    All of them, but where tokens were compared and some of the tail's are kept. None kept is what
    a source that compares whole blocks says of every child.
    """
    request, whole = session.requests[child], session.requests[parent].context_tokens
    if request.parent != parent or request.keep_tokens is None or request.keep_tokens <= before:
        return whole
    return request.keep_tokens - before
