"""Block hashes: chained, keyed, and equal exactly where the streams are."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.blocks import BLOCK_SIZE, chain
from tests.captured import unhurried

KEY = b"k" * 32
streams = st.lists(st.integers(0, 3), max_size=100)


def array(tokens: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(tokens, dtype=np.uint32)


def by_definition(tokens: list[int], key: bytes) -> list[bytes]:
    before = bytes(16)
    hashes = []
    for i in range(len(tokens) // 16):
        block = struct.pack("<16I", *tokens[16 * i : 16 * i + 16])
        before = hashlib.blake2b(before + block, digest_size=16, key=key).digest()
        hashes.append(before)
    return hashes


@unhurried
@given(st.lists(st.integers(0, 2**32 - 1), max_size=70), st.binary(min_size=1, max_size=64))
def test_hashes_are_those_of_the_definition(tokens: list[int], key: bytes) -> None:
    assert chain(array(tokens), key) == by_definition(tokens, key)


@unhurried
@given(streams, streams, streams)
def test_hash_i_is_shared_by_those_who_share_the_tokens_up_to_it(
    common: list[int], one: list[int], other: list[int]
) -> None:
    first, second = common + one, common + other
    for i, (a, b) in enumerate(
        zip(chain(array(first), KEY), chain(array(second), KEY), strict=False)
    ):
        end = BLOCK_SIZE * (i + 1)
        assert (a == b) == (first[:end] == second[:end])


@unhurried
@given(streams, st.integers(0, 6))
def test_hashing_goes_on_from_any_block(tokens: list[int], kept: int) -> None:
    whole = chain(array(tokens), KEY)
    kept = min(kept, len(whole))
    before = whole[kept - 1] if kept else None
    assert chain(array(tokens[BLOCK_SIZE * kept :]), KEY, before) == whole[kept:]


def test_another_key_gives_other_hashes() -> None:
    tokens = array([1] * 16)
    assert chain(tokens, KEY) != chain(tokens, b"l" * 32)
