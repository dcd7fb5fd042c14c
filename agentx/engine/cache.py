"""A paged prefix cache: blocks found again by name, evicted least recently used first.

A block holds the KV of `block_size` tokens. Its name stands for those tokens and all before them
(a chained hash, or any hashable that does the same), so that the longest cached prefix is the
longest run of known names from the start, and the names of one request are all different.

A block is in one of three states: referenced (by the requests that run on it), cached (has a name,
nobody runs on it, may be evicted), or unused. Names and blocks are one to one: when two requests
computed the same block at the same time, the second gives its own back and takes the first's.

Counts are kept in numpy arrays, so that a request of thousands of blocks costs a few array
operations and one dictionary look-up a block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

BLOCK_SIZE = 16

Name: TypeAlias = Hashable
"""What a full block is found by. None names nothing: such a block is never found again."""

_Ids: TypeAlias = npt.NDArray[np.int64]

_QUEUE_SLACK = 4096
"""Stale queue entries that are tolerated before they are swept."""


class PrefixCache:
    """Blocks of one replica. Pure bookkeeping: no clock, the order of the calls is the age.

    `capacity` is in blocks; None means without end, and then nothing is ever evicted.
    """

    def __init__(self, capacity: int | None = None, block_size: int = BLOCK_SIZE) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self.releases = 0
        """Grows when blocks became available: who waits for blocks need not look before."""
        self._by_name: dict[Name, int] = {}
        self._names: list[Name] = []
        """By block; None where it has none."""
        self._references = np.zeros(0, np.int32)
        self._queued_at = np.zeros(0, np.int64)
        """By block: the batch of the queue in which its entry is valid; older ones are stale."""
        self._referenced = 0
        self._unused: list[int] = []
        self._queue: deque[tuple[int, _Ids]] = deque()
        """Batches (number, blocks): who was released first, and within a release the tail first."""
        self._batch = 0
        self._entries = 0

    @property
    def referenced(self) -> int:
        """Blocks that running requests hold."""
        return self._referenced

    @property
    def cached(self) -> int:
        """Blocks that have a name, referenced or not."""
        return len(self._by_name)

    def match(self, names: Sequence[Name], limit: int | None = None) -> list[int]:
        """The blocks of the longest cached prefix of `names`, at most `limit`. Changes nothing."""
        found: list[int] = []
        known = self._by_name.get
        for name in names if limit is None else names[:limit]:
            block = known(name)
            if block is None:
                break
            found.append(block)
        return found

    def claim(self, hits: list[int], fresh: int) -> list[int] | None:
        """Reference the blocks `hits` (from `match`) and `fresh` new ones; all, or None.

        Evicts as many cached blocks as it takes, never one of `hits`.
        """
        ids = np.array(hits, np.int64)
        idle = int(np.count_nonzero(self._references[ids] == 0)) if hits else 0
        if self.capacity is not None and idle + fresh > self.capacity - self._referenced:
            return None
        if hits:
            self._references[ids] += 1
            self._referenced += idle
        return hits + [self._new_block() for _ in range(fresh)]

    def publish(self, blocks: list[int], names: Sequence[Name], start: int, stop: int) -> None:
        """Name the computed blocks `blocks[start:stop]`, so that they can be hit from now on.

        Where a name is known already, the block is given back and the known one put in its place.
        """
        for index in range(start, stop):
            name = names[index]
            if name is None:
                continue
            block = blocks[index]
            known = self._by_name.setdefault(name, block)
            if known == block:
                self._names[block] = name
                continue
            self._referenced -= 1 if self._references[known] else 0
            self._references[known] += 1
            self._references[block] = 0
            self._unused.append(block)
            self.releases += 1
            blocks[index] = known

    def release(self, blocks: list[int]) -> None:
        """Drop one reference of each block; the tail becomes evictable before the head."""
        if not blocks:
            return
        ids = np.array(blocks[::-1], np.int64)
        self._references[ids] -= 1
        idle = ids[self._references[ids] == 0]
        self._referenced -= len(idle)
        self.releases += 1
        names = self._names
        nameless = [block for block in idle.tolist() if names[block] is None]
        if nameless:
            self._unused.extend(nameless)
            idle = idle[~np.isin(idle, nameless)]
        if self.capacity is not None and len(idle):
            self._enqueue(idle)

    def clear(self) -> None:
        """Forget all names. Referenced blocks stay with their holders and end up unused."""
        for block in self._by_name.values():
            self._names[block] = None
            if not self._references[block]:
                self._unused.append(block)
        self._by_name.clear()
        self._queue.clear()
        self._entries = 0
        self.releases += 1

    def _new_block(self) -> int:
        if self._unused:
            block = self._unused.pop()
        elif self.capacity is None or len(self._names) < self.capacity:
            block = len(self._names)
            self._names.append(None)
            if block >= len(self._references):
                more = max(1024, block)
                self._references = np.pad(self._references, (0, more))
                self._queued_at = np.pad(self._queued_at, (0, more))
        else:
            block = self._evict()
        self._references[block] = 1
        self._referenced += 1
        return block

    def _evict(self) -> int:
        """Take the name from the least recently used cached block; the caller knows of one."""
        while True:
            number, ids = self._queue[0]
            if not len(ids):
                self._queue.popleft()
                continue
            block = int(ids[0])
            self._queue[0] = (number, ids[1:])
            self._entries -= 1
            if self._queued_at[block] == number and not self._references[block]:
                del self._by_name[self._names[block]]
                self._names[block] = None
                return block

    def _enqueue(self, ids: _Ids) -> None:
        self._batch += 1
        self._queued_at[ids] = self._batch
        self._queue.append((self._batch, ids))
        self._entries += len(ids)
        if self._entries > 2 * len(self._by_name) + _QUEUE_SLACK:
            self._sweep()

    def _sweep(self) -> None:
        """Drop entries of blocks that were taken up or queued again since."""
        kept = deque[tuple[int, _Ids]]()
        for number, ids in self._queue:
            valid = ids[(self._queued_at[ids] == number) & (self._references[ids] == 0)]
            if len(valid):
                kept.append((number, valid))
        self._queue = kept
        self._entries = sum(len(ids) for _, ids in kept)
