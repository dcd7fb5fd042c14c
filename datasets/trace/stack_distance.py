"""Achievable hit rates: exact LRU curves, for every capacity at once.

Requests touch their blocks from tail to head, as servers free them, so that a prefix outlives what
hangs on it. A touch's Mattson distance is the place of its block in the LRU stack, 1 on top: it
hits in every cache of at least that many blocks (`per_touch`). A server looks up the whole prefix
before it touches anything; what it finds is the longest prefix that is resident (`at_arrival`).

**Why a request costs few steps, however long.** Call the request that touched a block last its
owner, and number requests as they come. A block stands for its whole prefix, so whoever touches
block i of a path touches blocks 0 … i−1 of it too. Hence:

1. Along a path, owners only get older. Whoever took block i took all before it, so the owner of a
   block is at least as recent as that of any block after it.
2. What a request q still owns is a suffix of its path, from some index lo(q) on: others took
   prefixes.
3. The stack is therefore, from the top: the newest request's suffix, head first (it was touched
   last), then the next newest one's, and so on.

Let request r have the path p(0) … p(n−1). By 1 it falls into stretches of one owner each, and by 2
the stretch of owner q begins at lo(q). Let above(q) be the number of blocks that requests newer
than q own. At arrival p(i) of q's stretch stands at place above(q) + (i − lo(q)) + 1, so that
places rise along the path and the resident prefix is every p(i) whose place is within the
capacity.

When p(i) is touched, p(i+1) … p(n−1) have been, which are n−1−i blocks now on top. None of them was
above p(i) before: by 1 they were owned by q itself, below p(i), or by older ones. Its place has
become above(q) + (i − lo(q)) + 1 + (n−1−i) = above(q) + n − lo(q): the same for the stretch.

So a request is a few (distance, place, length) triples. Finding the stretches is one vectorised
look-up of the path's owners, and above(q) comes from a Fenwick tree over requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx.datasets.trace.block_runs import Blocks

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class LruCurve:
    """Shares of block touches that hit, by capacity in blocks. None where nothing was touched."""

    touches: int
    distinct: int
    distances: NDArray[np.int64]
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def per_touch(self, capacity: int) -> float | None:
        """Touches whose stack distance is within the capacity."""
        hits = int(self.lengths[self.distances <= capacity].sum())
        return hits / self.touches if self.touches else None

    def at_arrival_blocks(self, capacity: int) -> int:
        """Blocks found resident by all requests when they arrived."""
        resident = capacity - self.places + 1
        return int(np.clip(resident, 0, self.lengths).sum())

    def at_arrival(self, capacity: int) -> float | None:
        """Those, as a share of the touches."""
        return self.at_arrival_blocks(capacity) / self.touches if self.touches else None

    @property
    def infinite(self) -> float | None:
        """All touches but each block's first."""
        return (self.touches - self.distinct) / self.touches if self.touches else None


def lru_curve(paths: Iterable[Blocks], requests: int) -> LruCurve:
    """The curve of requests with these block lists, in the order in which they arrive.

    Equal prefixes must have equal integers and different ones different integers. `requests` is
    how many there are at most.
    """
    stack = _Stack(requests)
    stretches = [stretch for path in paths for stretch in stack.touch(path)]
    table = np.array(stretches, dtype=np.int64).reshape(-1, 3)
    return LruCurve(stack.touches, stack.distinct, table[:, 0], table[:, 1], table[:, 2])


class _Stack:
    """An LRU stack without end, as owners of blocks."""

    def __init__(self, requests: int) -> None:
        self.touches = 0
        self.distinct = 0
        self._requests = 0
        self._owner: NDArray[np.int32] = np.full(1 << 12, _NOBODY, dtype=np.int32)
        self._first_owned = np.zeros(requests, dtype=np.int64)
        self._owned = _Fenwick(requests)

    def touch(self, path: Blocks) -> list[tuple[int, int, int]]:
        """Touch a path; its stretches that were in the stack, as (distance, place, length)."""
        request, self._requests = self._requests, self._requests + 1
        size = path.size
        if not size:
            return []
        self._grow(int(path.max()) + 1)
        owners = self._owner[path]
        heads = np.concatenate(([0], np.flatnonzero(owners[1:] != owners[:-1]) + 1))
        lengths = np.diff(heads, append=size)
        stretches: list[tuple[int, int, int]] = []
        for owner, head, length in zip(
            owners[heads].tolist(), heads.tolist(), lengths.tolist(), strict=True
        ):
            if owner == _NOBODY:
                self.distinct += length
            else:
                above = self._owned.after(owner)
                lo = int(self._first_owned[owner])
                stretches.append((above + size - lo, above + 1, length))
                self._first_owned[owner] = head + length
                # From one request to a newer one: what is above older owners stays the same.
                self._owned.add(owner, -length)
            self._owned.add(request, length)
        self._owner[path] = request
        self.touches += size
        return stretches

    def _grow(self, size: int) -> None:
        if size > self._owner.size:
            more = max(size, 2 * self._owner.size) - self._owner.size
            fresh = np.full(more, _NOBODY, dtype=np.int32)
            self._owner = np.concatenate([self._owner, fresh])


class _Fenwick:
    """Counts by position, with sums of a range in O(log n)."""

    def __init__(self, size: int) -> None:
        self._tree = [0] * (size + 1)
        self._total = 0

    def add(self, position: int, amount: int) -> None:
        self._total += amount
        position += 1
        while position < len(self._tree):
            self._tree[position] += amount
            position += position & -position

    def after(self, position: int) -> int:
        """The sum of the counts behind a position."""
        upto = 0
        position += 1
        while position:
            upto += self._tree[position]
            position -= position & -position
        return self._total - upto
