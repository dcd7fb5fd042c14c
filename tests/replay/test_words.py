from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.tokens import o200k_base
from agentx.replay.words import Words, own_name, probe_words, word_list


def text(words: Words, *names: int, first: int = 0, count: int = 16) -> list[str]:
    size = len(names)
    made = words.text(np.array(names, dtype=np.uint64), np.full(size, first), np.full(size, count))
    assert made.count(b" ") == size * count
    return made.decode().split()


def test_the_list_is_packaged_as_it_was_tried() -> None:
    words = word_list()
    assert len(words) == len(set(words)) == 3338
    assert all(re.fullmatch("[a-z]{3,8}", word) for word in words)
    assert 16 * math.log2(len(words)) > 128


def test_words_are_chosen_by_name_and_salt_alone() -> None:
    one, again, other = Words(b"salt"), Words(b"salt"), Words(b"pepper")
    assert text(one, 7) == text(again, 7) == text(one, 5, 7)[16:]
    assert text(one, 7) != text(other, 7)
    assert text(one, 7) != text(one, 8)


@given(st.integers(0, 2**63), st.integers(0, 99), st.integers(0, 99))
def test_a_part_of_a_block_is_made_without_the_rest(name: int, first: int, count: int) -> None:
    words = Words(b"salt")
    whole = text(words, name, count=first + count)
    assert text(words, name, first=first, count=count) == whole[first:]


def test_uneven_parts_stand_in_the_order_given() -> None:
    words = Words(b"salt")
    names = np.array([3, 9, 4], dtype=np.uint64)
    made = words.text(names, np.array([2, 0, 1]), np.array([3, 0, 2])).decode().split()
    assert made == text(words, 3, count=5)[2:] + text(words, 4, count=3)[1:]


@pytest.mark.parametrize("glue", [" ", ""])
def test_a_word_is_a_token_with_its_space_and_without(glue: str) -> None:
    drawn = " ".join(text(Words(b"salt"), *range(500)))
    assert len(o200k_base().encode(glue + drawn)) == 500 * 16
    # The first of a message stands without a space.
    assert all(len(o200k_base().encode(word)) == 1 for word in word_list())


def test_neighbouring_integers_share_nothing() -> None:
    words = Words(b"salt")
    made = text(words, *range(20_000), count=16)
    units = {tuple(made[at : at + 16]) for at in range(0, len(made), 16)}
    assert len(units) == 20_000
    # Words agree as often as independent draws do: 1 in 3,338 of pairs of neighbours.
    agree = sum(one == two for one, two in zip(made, made[16:], strict=False))
    assert 40 < agree < 160
    # And no word is much more common than another (95.9 expected of each).
    _, times = np.unique(made, return_counts=True)
    assert times.size == 3338
    assert times.max() < 160


def test_own_names_are_no_block_integers() -> None:
    assert own_name("a", 1) == own_name("a", 1) != own_name("a", 2)
    assert 2**63 <= own_name("a", 1) < 2**64


@pytest.mark.parametrize("count", [2, 3, 50, 51, 400, 2001])
@pytest.mark.parametrize("seed", [0, 1, 977])
def test_probe_words_are_of_the_lists_mean_length(count: int, seed: int) -> None:
    words = probe_words(count, seed)
    assert len(words) == count
    assert set(words) <= set(word_list())
    mean = sum(map(len, word_list())) / len(word_list())
    assert sum(map(len, words)) == round(mean * count)


def test_probes_begin_differently() -> None:
    assert len({tuple(probe_words(8, seed)[:4]) for seed in range(50)}) == 50
    assert probe_words(0, 1) == []
