from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from agentx.datasets.trace.block_runs import Blocks
from agentx.datasets.trace.stack_distance import lru_curve
from tests.datasets.made import Namer, label_paths


class NaiveLru:
    """An LRU cache of so many blocks that is what it says; the most recent block is last."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held: list[int] = []

    def request(self, path: list[int]) -> tuple[int, int]:
        """Blocks of the prefix found before touching, touches that hit."""
        found = 0
        while found < len(path) and path[found] in self.held:
            found += 1
        hits = 0
        for block in reversed(path):
            if block in self.held:
                hits += 1
                self.held.remove(block)
            self.held.append(block)
            del self.held[: max(len(self.held) - self.capacity, 0)]
        return found, hits


def named(paths: list[tuple[int, ...]]) -> list[Blocks]:
    namer = Namer()
    return [namer.name(path) for path in paths]


@settings(max_examples=150, deadline=None)
@given(label_paths)
def test_every_capacity_is_as_a_naive_cache_of_it(paths: list[tuple[int, ...]]) -> None:
    lists = named(paths)
    curve = lru_curve(iter(lists), len(lists))
    touches = sum(blocks.size for blocks in lists)
    assert curve.touches == touches
    assert curve.distinct == len({block for blocks in lists for block in blocks.tolist()})
    for capacity in (1, 2, 3, 5, 8, 13, 100):
        cache = NaiveLru(capacity)
        found, hits = 0, 0
        for blocks in lists:
            one, other = cache.request(blocks.tolist())
            found, hits = found + one, hits + other
        assert curve.at_arrival_blocks(capacity) == found
        assert curve.per_touch(capacity) == (hits / touches if touches else None)
        assert curve.at_arrival(capacity) == (found / touches if touches else None)


@given(label_paths)
def test_an_endless_cache_misses_first_touches_only(paths: list[tuple[int, ...]]) -> None:
    lists = named(paths)
    curve = lru_curve(lists, len(lists))
    assert curve.infinite == curve.per_touch(1 << 40) == curve.at_arrival(1 << 40)


def test_the_two_ways_differ_where_a_request_is_larger_than_the_cache() -> None:
    path = np.arange(10)
    curve = lru_curve([path, path], 2)
    # Four blocks are left of the first request when the second arrives: its head.
    assert curve.at_arrival_blocks(4) == 4
    # Each is gone before it is touched, since the tail is touched first.
    assert curve.per_touch(4) == 0
    assert curve.per_touch(10) == 0.5


def test_nothing_was_touched() -> None:
    curve = lru_curve([np.empty(0, np.int64)], 1)
    assert curve.infinite is None
    assert curve.per_touch(5) is None
    assert curve.at_arrival(5) is None


def test_a_request_takes_few_stretches_however_long() -> None:
    head = np.arange(50_000)
    paths = [np.append(head, 50_000 + turn) for turn in range(20)]
    assert lru_curve(paths, 20).lengths.size == 19
