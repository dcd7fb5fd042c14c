"""Prefixes against the streams themselves, on random contexts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.prefixes import Prefix, Prefixes
from agentx.datasets.recorded import Recorded
from agentx.datasets.trace.block_runs import decode
from agentx.datasets.trace.tokens import Tokens
from agentx.proxy_addons.wire.content import Usage
from tests.captured import unhurried

KEY = b"k" * 32
# Segments by number: a marker and some tokens. 3 is 1 with more text, 4 is 2 under another name.
SEGMENTS: dict[int, list[int]] = {
    1: [90, *range(30)],
    2: [91, 5],
    3: [90, *range(45)],
    4: [91, 5],
    5: [92],
    6: [90, *range(12), 77, *range(20)],
}
contexts = st.lists(st.sampled_from(sorted(SEGMENTS)), max_size=8)


def tokens_of(number: int) -> Tokens:
    return np.array(SEGMENTS[number], dtype=np.uint32)


def recorded(context: list[int]) -> Recorded:
    return Recorded(
        opened_ms=0.0,
        first_output_ms=None,
        end_ms=None,
        session=None,
        agent=None,
        parent_session=None,
        own_id=None,
        model=None,
        status="ok",
        streamed=True,
        stop_reason=None,
        error=None,
        usage=Usage(),
        count_only=False,
        max_output=None,
        hints=(),
        call_ids=(),
        answer_ids=(),
        unseen=(),
        context=np.array(context, dtype=np.uint32),
        answer=np.empty(0, dtype=np.uint32),
    )


def stream(context: list[int]) -> list[int]:
    return [token for number in context for token in SEGMENTS[number]]


def shared(one: list[int], other: list[int]) -> int:
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


@unhurried
@given(contexts, st.lists(contexts, min_size=1, max_size=6), st.data())
def test_what_is_kept_is_the_longest_common_prefix_of_the_streams(
    first: list[int], others: list[list[int]], data: st.DataObject
) -> None:
    prefixes = Prefixes(tokens_of, lambda number: len(SEGMENTS[number]), KEY)
    seen: list[tuple[list[int], Prefix]] = [(stream(first), prefixes.prefix(recorded(first), None))]
    for context in others:
        parent, parent_prefix = data.draw(st.sampled_from(seen))
        found, prefix = stream(context), prefixes.prefix(recorded(context), parent_prefix)
        assert prefix.context.tokens == len(found)
        assert prefix.keep_tokens == shared(found, parent)
        assert prefix.linked.keep_blocks == shared(found, parent) // 16
        assert len(prefix.linked.blocks) == len(found) // 16
        kept = prefix.keep_segments
        assert list(parent_prefix.context.segments[:kept]) == context[:kept]
        seen.append((found, prefix))
    # Blocks are the same integers exactly where the streams are the same up to their end.
    for one, one_prefix in seen:
        for other, other_prefix in seen:
            blocks = zip(one_prefix.linked.blocks, other_prefix.linked.blocks, strict=False)
            for at, (a, b) in enumerate(blocks):
                assert (a == b) == (one[: 16 * (at + 1)] == other[: 16 * (at + 1)])
    used = [int(block) for _, prefix in seen for block in prefix.linked.blocks]
    assert list(dict.fromkeys(used)) == list(range(len(set(used))))
    assert all(
        decode(p.linked.append).tolist() == p.linked.blocks[p.linked.keep_blocks or 0 :].tolist()
        for _, p in seen
        if not p.linked.keyframe
    )
