from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.engine.cache import Name
from agentx.engine.tokens import TokenChain

WORDS = st.lists(st.sampled_from(["a", "b", "ab", "é", "12", "{"]), max_size=70)
IDS = st.lists(st.integers(0, 2**32 - 1), max_size=70)


def plain_names(tokens: list[bytes], person: bytes) -> list[Name]:
    """What a name is, said plainly: the hash of all tokens up to the block's end."""
    return [
        blake2b(b"".join(tokens[:end]), digest_size=16, person=person).digest()
        for end in range(16, len(tokens) + 1, 16)
    ]


@given(WORDS, st.lists(st.integers(0, 70), max_size=4))
def test_names_do_not_depend_on_how_the_words_came(words: list[str], cuts: list[int]) -> None:
    chain = TokenChain.of_words()
    names: list[Name] = []
    bounds = [0, *sorted(min(cut, len(words)) for cut in cuts), len(words)]
    for start, stop in pairwise(bounds):
        names += chain.add_words(words[start:stop])
    assert names == plain_names([f"{word} ".encode() for word in words], b"words")
    assert chain.tokens == len(words)


@given(IDS, st.integers(0, 70))
def test_ids(ids: list[int], cut: int) -> None:
    chain = TokenChain.of_ids()
    names = chain.add_ids(ids[:cut]) + chain.add_ids(ids[cut:])
    assert names == plain_names([token.to_bytes(4, "little") for token in ids], b"ids")


@given(WORDS, WORDS)
def test_equal_names_mean_equal_prefixes(one: list[str], two: list[str]) -> None:
    first, second = TokenChain.of_words().add_words(one), TokenChain.of_words().add_words(two)
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        end = 16 * (index + 1)
        assert (left == right) == (one[:end] == two[:end])


def test_ids_and_words_have_no_name_in_common() -> None:
    # 16 ids of four bytes that spell 32 words of one letter.
    ids = [int.from_bytes(b"a b ", "little")] * 16
    words = ["a", "b"] * 16
    assert not {*TokenChain.of_ids().add_ids(ids)} & {*TokenChain.of_words().add_words(words)}


def test_a_copy_goes_its_own_way() -> None:
    chain = TokenChain.of_words()
    chain.add_words(["a"] * 10)
    copy = chain.copy()
    copy.add_words(["b"] * 10)
    assert (chain.tokens, copy.tokens) == (10, 20)
    assert chain.add_words(["a"] * 6) == TokenChain.of_words().add_words(["a"] * 16)


@pytest.mark.parametrize("token", [-1, 2**32])
def test_ids_out_of_range(token: int) -> None:
    with pytest.raises(OverflowError):
        TokenChain.of_ids().add_ids([token])
