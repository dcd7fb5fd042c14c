from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.hitrate import SeenBlocks, hit_rate, is_append_only, shared_tokens
from tests.datasets.made import Namer, Turn, label_paths, make_session, turns

SIZE = 16


@given(label_paths, st.lists(st.booleans(), min_size=30, max_size=30))
def test_hits_are_the_longest_prefix_of_what_was_seen(
    paths: list[tuple[int, ...]], forgets: list[bool]
) -> None:
    namer, seen = Namer(), SeenBlocks(SIZE)
    naive: set[int] = set()
    for path, forget in zip(paths, forgets, strict=False):
        if forget:
            seen.forget()
            naive = set()
        blocks = namer.name(path)
        expected = 0
        while expected < blocks.size and blocks[expected] in naive:
            expected += 1
        assert seen.hit_then_add(blocks, blocks.size * SIZE + 3) == expected * SIZE
        naive.update(blocks.tolist())
        assert seen.distinct == len(naive)


@given(turns)
def test_a_tail_id_counts_as_one_more_id(made: list[Turn]) -> None:
    session, seen, naive = make_session(made, block_size=SIZE), SeenBlocks(SIZE), set[int]()
    for request, blocks in zip(session.requests, block_lists(session), strict=True):
        ids = blocks.tolist() + ([] if request.tail_id is None else [request.tail_id])
        prefix = 0
        while prefix < len(ids) and ids[prefix] in naive:
            prefix += 1
        hit = seen.hit_then_add(blocks, request.context_tokens, request.tail_id)
        assert hit == min(prefix * SIZE, request.context_tokens)
        naive.update(ids)


def test_integers_beyond_any_seen_are_no_hit() -> None:
    seen = SeenBlocks(SIZE)
    assert seen.hit_blocks(np.array([1 << 40])) == 0
    seen.add(np.array([0, 1]))
    assert seen.hit_blocks(np.array([0, 1, 1 << 40])) == 2
    assert seen.hit_tokens(np.array([0, 1]), 40, tail_id=1 << 40) == 32


def test_hits_never_exceed_the_context() -> None:
    seen = SeenBlocks(SIZE)
    seen.add(np.arange(4))
    assert seen.hit_tokens(np.arange(4), 60) == 60


def test_an_empty_context_has_no_hit() -> None:
    seen = SeenBlocks(SIZE)
    assert seen.hit_then_add(np.empty(0, np.int64), 7) == 0
    assert seen.distinct == 0


def test_shared_tokens_of_an_append_only_request() -> None:
    session = make_session([Turn((0, 1), rest=5, output=20), Turn((0, 1, 2, 0), rest=3)])
    parent, child = session.requests
    assert (parent.context_tokens, child.context_tokens) == (37, 67)
    assert is_append_only(child, parent)
    assert shared_tokens(child, parent, output=False) == 37
    assert shared_tokens(child, parent, output=True) == 57
    # The new text is at least one token, however long the output was.
    assert shared_tokens(child, replace(parent, output_tokens=500), output=True) == 66
    # How an output reappears is known better than how long it was.
    assert shared_tokens(child, replace(parent, output_context_tokens=8), output=True) == 45
    assert shared_tokens(child, replace(parent, output_tokens=None), output=True) == 37


def test_only_whole_blocks_are_shared_with_a_parent_that_was_rewritten() -> None:
    session = make_session([Turn((0, 1), rest=5), Turn((0, 2, 2), rest=3)])
    parent, child = session.requests
    assert not is_append_only(child, parent)
    assert shared_tokens(child, parent, output=True) == 0
    assert shared_tokens(parent, None, output=True) == 0


def test_a_context_that_became_shorter_shares_no_more_than_it_has() -> None:
    session = make_session([Turn((0, 1), rest=9), Turn((0, 1), rest=2)])
    parent, child = session.requests
    assert shared_tokens(child, parent, output=False) == child.context_tokens
    assert shared_tokens(child, parent, output=True) == child.context_tokens


def test_rates() -> None:
    rate = hit_rate([0, 50, 90], [100, 100, 100])
    assert rate.token_weighted == pytest.approx(140 / 300)
    assert rate.request_mean == pytest.approx((0 + 0.5 + 0.9) / 3)
    assert rate.request_median == 0.5


def test_rates_of_nothing_are_unknown() -> None:
    assert hit_rate([], []).token_weighted is None
    assert hit_rate([0], [0]).request_mean is None
    assert hit_rate([0, 5], [0, 10]).request_mean == 0.5
