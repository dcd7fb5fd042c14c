"""Block lists as runs of consecutive integers, and back.

Block integers count up in order of first use, so that most of what a request appends is one run.
Lists are expanded only where they are used; what is kept between requests are runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentx.datasets.trace.model import BlockRuns, Session

Blocks = NDArray[np.int64]
"""A request's block integers, in the order of its context."""


def encode(blocks: Sequence[int] | Blocks) -> BlockRuns:
    """The list as (starts, lengths), each run as long as it can be."""
    array = np.asarray(blocks, dtype=np.int64)
    if array.size == 0:
        return ((), ())
    heads = [0, *((array[1:] - array[:-1] != 1).nonzero()[0] + 1).tolist(), array.size]
    return (tuple(array[heads[:-1]].tolist()), tuple(b - a for a, b in pairwise(heads)))


def decode(runs: BlockRuns) -> Blocks:
    """The list that the runs stand for."""
    starts, lengths = runs
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + lengths[0], dtype=np.int64)
    if not starts:
        return np.empty(0, dtype=np.int64)
    lens = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(lens)
    # Position minus the run's first position, plus the run's start.
    shift = np.asarray(starts, dtype=np.int64) - (ends - lens)
    blocks: Blocks = np.repeat(shift, lens)
    blocks += np.arange(ends[-1], dtype=np.int64)
    return blocks


def length(runs: BlockRuns) -> int:
    """How many blocks the runs stand for."""
    return sum(runs[1])


def head(runs: BlockRuns, count: int) -> BlockRuns:
    """The runs of the list's first `count` blocks; all of them where it has fewer."""
    starts: list[int] = []
    lengths: list[int] = []
    left = count
    for start, size in zip(*runs, strict=True):
        if left <= 0:
            break
        starts.append(start)
        lengths.append(min(size, left))
        left -= size
    return (tuple(starts), tuple(lengths))


def join(first: BlockRuns, second: BlockRuns) -> BlockRuns:
    """The runs of one list after the other; runs that meet become one."""
    if not first[0] or not second[0]:
        return first if first[0] else second
    if first[0][-1] + first[1][-1] == second[0][0]:
        met = (first[1][-1] + second[1][0],)
        return (first[0] + second[0][1:], first[1][:-1] + met + second[1][1:])
    return (first[0] + second[0], first[1] + second[1])


class HasRuns(Protocol):
    """A request, or what of it makes its block list."""

    @property
    def request(self) -> int: ...  # noqa: D102
    @property
    def parent(self) -> int | None: ...  # noqa: D102
    @property
    def keyframe(self) -> bool: ...  # noqa: D102
    @property
    def keep_blocks(self) -> int | None: ...  # noqa: D102
    @property
    def append(self) -> BlockRuns: ...  # noqa: D102


def whole_runs(requests: Sequence[HasRuns]) -> Iterator[BlockRuns]:
    """Runs of each request's whole block list, in the order given: parents before children.

    `requests` may be a session's, one agent's, or those of many sessions if their numbers differ.
    A list is held only until its last child has been built.
    """
    last_child = {r.parent: r.request for r in requests if not r.keyframe}
    held: dict[int, BlockRuns] = {}
    for request in requests:
        runs = request.append
        if not request.keyframe:
            parent = request.parent
            assert parent is not None
            kept = held[parent] if last_child[parent] > request.request else held.pop(parent)
            runs = join(head(kept, request.keep_blocks or 0), runs)
        if request.request in last_child:
            held[request.request] = runs
        yield runs


def block_lists(session: Session) -> Iterator[Blocks]:
    """Each request's block integers, in order of `request`."""
    for runs in whole_runs(session.requests):
        yield decode(runs)


KEYFRAME_EVERY = 64
"""A line's every 64th request stores its whole list, so that none needs more than 63 before it."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A block list and how it is stored: what it keeps of its parent's, and what follows."""

    blocks: Blocks
    keep_blocks: int | None
    keyframe: bool
    append: BlockRuns
    depth: int
    """Requests since the line's last keyframe."""


def link(blocks: Blocks, parent: Linked | None) -> Linked:
    """Store a list against its parent's: the longest common prefix and the runs after it."""
    if parent is None:
        return Linked(blocks, None, True, encode(blocks), 0)
    keep = common_prefix(parent.blocks, blocks)
    if parent.depth + 1 >= KEYFRAME_EVERY:
        return Linked(blocks, keep, True, encode(blocks), 0)
    return Linked(blocks, keep, False, encode(blocks[keep:]), parent.depth + 1)


def common_prefix(first: Blocks, second: Blocks) -> int:
    """How many leading blocks two lists share."""
    size = min(first.size, second.size)
    differ = first[:size] != second[:size]
    at = int(differ.argmax()) if size else 0
    return at if size and differ[at] else size
