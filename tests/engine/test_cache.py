"""The cache against a naive one that keeps a list in the order of release."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.engine.cache import Name, PrefixCache

Path: TypeAlias = tuple[int, ...]


def names_of(path: Path) -> list[Name]:
    """Names that stand for everything up to their block, as chained hashes do."""
    return [path[: depth + 1] for depth in range(len(path))]


@dataclass
class NaiveCache:
    """The rules of the cache, one block at a time, nothing clever."""

    capacity: int | None
    idle: list[Name] = field(default_factory=list)
    """Cached, not referenced; the next to be evicted first."""
    held: dict[Name, int] = field(default_factory=dict)
    nameless: int = 0

    def match(self, names: list[Name]) -> int:
        count = 0
        while count < len(names) and (names[count] in self.held or names[count] in self.idle):
            count += 1
        return count

    def claim(self, hits: list[Name], fresh: int) -> bool:
        woken = sum(name in self.idle for name in hits)
        used = len(self.held) + self.nameless
        if self.capacity is not None and used + woken + fresh > self.capacity:
            return False
        for name in hits:
            self._hold(name)
        for _ in range(fresh):
            self.nameless += 1
            if self.capacity is not None and self._total() > self.capacity:
                self.idle.pop(0)
        return True

    def publish(self, name: Name) -> None:
        self.nameless -= 1
        self._hold(name)

    def release(self, held: list[Name | None]) -> None:
        for name in reversed(held):
            if name is None:
                self.nameless -= 1
                continue
            self.held[name] -= 1
            if not self.held[name]:
                del self.held[name]
                self.idle.append(name)

    def clear(self) -> None:
        self.idle.clear()
        self.nameless += len(self.held)
        self.held.clear()

    def _hold(self, name: Name) -> None:
        if name in self.idle:
            self.idle.remove(name)
        self.held[name] = self.held.get(name, 0) + 1

    def _total(self) -> int:
        return len(self.idle) + len(self.held) + self.nameless


@dataclass
class Holder:
    """A request of the test: its blocks, and how many of them have their names."""

    names: list[Name]
    blocks: list[int]
    published: int


PATHS = st.lists(st.integers(0, 1), min_size=1, max_size=5).map(tuple)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), PATHS, st.integers(0, 2)),
        st.tuples(st.just("publish"), st.integers(0, 9), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(0, 9), st.just(0)),
    ),
    max_size=50,
)
UNIVERSE = [
    tuple((number >> bit) & 1 for bit in range(depth))
    for depth in range(1, 6)
    for number in range(2**depth)
]


@settings(max_examples=200)
@given(st.one_of(st.none(), st.integers(1, 12)), OPERATIONS)
def test_it_does_what_the_naive_cache_does(capacity: int | None, operations: list[object]) -> None:
    cache, naive = PrefixCache(capacity), NaiveCache(capacity)
    holders: list[Holder] = []
    for operation in operations:
        match operation:
            case "start", tuple() as path, int() as tail:
                names = names_of(path)
                hits = cache.match(names)
                assert len(hits) == naive.match(names)
                fresh = len(names) - len(hits) + tail
                blocks = cache.claim(hits, fresh)
                assert naive.claim(names[: len(hits)], fresh) == (blocks is not None)
                if blocks is not None:
                    assert blocks[: len(hits)] == hits
                    holders.append(Holder(names, blocks, len(hits)))
            case "publish", int() as which, int() as count:
                if holders:
                    holder = holders[which % len(holders)]
                    stop = min(len(holder.names), holder.published + count)
                    cache.publish(holder.blocks, holder.names, holder.published, stop)
                    for name in holder.names[holder.published : stop]:
                        naive.publish(name)
                    holder.published = stop
            case "release", int() as which, _:
                if holders:
                    holder = holders.pop(which % len(holders))
                    cache.release(holder.blocks)
                    unnamed = len(holder.blocks) - holder.published
                    naive.release([*holder.names[: holder.published], *[None] * unnamed])
        check(cache, naive, holders)
    for holder in holders:
        cache.release(holder.blocks)
    assert cache.referenced == 0


def check(cache: PrefixCache, naive: NaiveCache, holders: list[Holder]) -> None:
    """The same names are cached; a block has one name, and a holder shares it by name only."""
    found = {name: cache.match([name]) for name in UNIVERSE}
    known = {name: blocks[0] for name, blocks in found.items() if blocks}
    assert set(known) == {*naive.idle, *naive.held}
    assert len(set(known.values())) == len(known) == cache.cached
    assert cache.referenced == len(naive.held) + naive.nameless
    if cache.capacity is not None:
        assert len(naive.idle) + cache.referenced <= cache.capacity
    nameless: list[int] = []
    for holder in holders:
        assert [known[name] for name in UNIVERSE if name in holder.names[: holder.published]] == (
            holder.blocks[: holder.published]
        )
        nameless += holder.blocks[holder.published :]
    assert len(set(nameless)) == len(nameless)
    assert not set(nameless) & set(known.values())


@given(st.integers(1, 30), st.lists(PATHS, min_size=1, max_size=100))
@settings(max_examples=100)
def test_sequential_use_is_plain_lru(capacity: int, paths: list[Path]) -> None:
    """One request after the other: the order is the time of last use, deeper blocks older."""
    cache = PrefixCache(capacity)
    order: list[Name] = []  # The next to be evicted first.
    for path in paths:
        names = names_of(path)[:capacity]
        hits = cache.match(names)
        assert len(hits) == len([name for name in names if name in order])
        blocks = cache.claim(hits, len(names) - len(hits))
        assert blocks is not None
        cache.publish(blocks, names, len(hits), len(names))
        cache.release(blocks)
        order = [name for name in order if name not in names] + names[::-1]
        order = order[-capacity:]
        assert {name for name in UNIVERSE if cache.match([name])} == set(order)


def test_the_tail_of_a_prefix_goes_first() -> None:
    cache = PrefixCache(4)
    names = names_of((1, 1, 1, 1))
    blocks = cache.claim([], 4)
    assert blocks is not None
    cache.publish(blocks, names, 0, 4)
    cache.release(blocks)
    cache.claim([], 1)
    assert len(cache.match(names)) == 3


def test_claim_is_all_or_nothing() -> None:
    cache = PrefixCache(3)
    assert cache.claim([], 2) is not None
    assert cache.claim([], 2) is None
    assert cache.referenced == 2
    assert cache.claim([], 1) is not None


def test_a_hit_is_not_evicted_for_the_rest_of_its_own_request() -> None:
    cache = PrefixCache(3)
    names = names_of((0, 0, 0))
    blocks = cache.claim([], 3)
    assert blocks is not None
    cache.publish(blocks, names, 0, 3)
    cache.release(blocks)
    hits = cache.match(names, limit=1)
    assert cache.claim(hits, 3) is None
    assert cache.claim(hits, 2) is not None
    assert cache.match(names) == hits


def test_a_block_computed_twice_is_kept_once() -> None:
    cache = PrefixCache(4)
    names = names_of((0, 1))
    one, two = cache.claim([], 2), cache.claim([], 2)
    assert one is not None
    assert two is not None
    cache.publish(one, names, 0, 2)
    cache.publish(two, names, 0, 2)
    assert one == two == cache.match(names)
    assert cache.referenced == 2
    cache.release(one)
    assert cache.referenced == 2
    cache.release(two)
    assert cache.referenced == 0


def test_a_block_without_a_name_is_never_found() -> None:
    cache = PrefixCache()
    blocks = cache.claim([], 2)
    assert blocks is not None
    cache.publish(blocks, ["a", None], 0, 2)
    cache.release(blocks)
    assert len(cache.match(["a", None])) == 1


@pytest.mark.parametrize("capacity", [None, 8])
def test_clear_forgets_what_is_idle_and_what_is_held(capacity: int | None) -> None:
    cache = PrefixCache(capacity)
    held_names, idle_names = names_of((0, 0)), names_of((1, 1))
    held, idle = cache.claim([], 2), cache.claim([], 2)
    assert held is not None
    assert idle is not None
    cache.publish(held, held_names, 0, 2)
    cache.publish(idle, idle_names, 0, 2)
    cache.release(idle)
    cache.clear()
    assert not cache.match(held_names)
    assert not cache.match(idle_names)
    assert (cache.referenced, cache.cached) == (2, 0)
    cache.release(held)
    assert cache.referenced == 0
    if capacity is not None:
        whole = cache.claim([], capacity)
        assert whole is not None
        assert len(set(whole)) == capacity


def test_the_queue_does_not_grow_with_use() -> None:
    """A conversation that is taken up again and again leaves no trail of stale entries."""
    cache = PrefixCache(100)
    names: list[Name] = [*range(50)]
    for _ in range(1000):
        hits = cache.match(names)
        blocks = cache.claim(hits, 50 - len(hits))
        assert blocks is not None
        cache.publish(blocks, names, len(hits), 50)
        cache.release(blocks)
    assert sum(len(ids) for _, ids in cache._queue) < 5000
    assert len(cache.match(names)) == 50
