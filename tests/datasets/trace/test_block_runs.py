from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace import block_runs
from agentx.datasets.trace.block_runs import KEYFRAME_EVERY, Blocks, Linked
from tests.datasets.made import Namer, Turn, make_session, turns

# Few values, so that runs of consecutive integers are common.
lists = st.lists(st.integers(0, 6), max_size=40)


@given(lists)
def test_a_list_comes_back_from_its_runs(blocks: list[int]) -> None:
    assert block_runs.decode(block_runs.encode(blocks)).tolist() == blocks


@given(lists)
def test_runs_are_as_long_as_they_can_be(blocks: list[int]) -> None:
    starts, lengths = block_runs.encode(blocks)
    assert all(size > 0 for size in lengths)
    ends = [start + size for start, size in zip(starts, lengths, strict=True)]
    assert all(end != start for end, start in zip(ends, starts[1:], strict=False))


@given(lists, st.integers(-1, 50))
def test_head(blocks: list[int], count: int) -> None:
    runs = block_runs.head(block_runs.encode(blocks), count)
    assert block_runs.decode(runs).tolist() == blocks[: max(count, 0)]


@given(lists, lists)
def test_join(first: list[int], second: list[int]) -> None:
    runs = block_runs.join(block_runs.encode(first), block_runs.encode(second))
    assert runs == block_runs.encode(first + second)


@given(lists, lists)
def test_common_prefix(first: list[int], second: list[int]) -> None:
    keep = block_runs.common_prefix(np.array(first, np.int64), np.array(second, np.int64))
    assert first[:keep] == second[:keep]
    assert first[keep : keep + 1] != second[keep : keep + 1] or keep == len(first) == len(second)


@given(turns)
def test_every_list_of_a_session_is_rebuilt(made: list[Turn]) -> None:
    session = make_session(made)
    namer = Namer()
    for turn, request, blocks in zip(
        made, session.requests, block_runs.block_lists(session), strict=True
    ):
        scoped: list[object] = [("one", label) for label in turn.labels]
        expected = namer.name(scoped)
        if turn.tail:
            namer.name([*scoped, ("tail", turn.rest)])
        assert blocks.tolist() == expected.tolist()
        assert request.blocks == len(turn.labels)


def test_keyframes_are_regular_and_bound_the_depth() -> None:
    linked: Linked | None = None
    keyframes = []
    blocks: Blocks = np.empty(0, dtype=np.int64)
    for number in range(3 * KEYFRAME_EVERY):
        blocks = np.append(blocks, number)
        linked = block_runs.link(blocks, linked)
        assert block_runs.length(linked.append) == (number + 1 if linked.keyframe else 1)
        keyframes += [number] if linked.keyframe else []
    assert keyframes == [0, KEYFRAME_EVERY, 2 * KEYFRAME_EVERY]


def test_a_branch_goes_back_to_an_earlier_request() -> None:
    first = block_runs.link(np.arange(4), None)
    second = block_runs.link(np.array([0, 1, 9]), first)
    third = block_runs.link(np.arange(6), first)
    assert (second.keep_blocks, second.append) == (2, ((9,), (1,)))
    assert (third.keep_blocks, third.append) == (4, ((4,), (2,)))
