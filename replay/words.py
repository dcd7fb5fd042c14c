"""Words for block integers: the same integer and salt give the same words, anywhere.

The words are common English ones that are one token each, with a leading space and without, in
the vocabularies that were tried (docs/design/0002-synthetic-text.md). They are lower-case ASCII
letters, so that JSON needs no escapes.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Names: TypeAlias = NDArray[np.uint64]
"""Block integers, and names of other pieces of text above them (`own_name`)."""

_OWN = 1 << 63
"""Names from here on are no block integers."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@cache
def word_list() -> tuple[str, ...]:
    """The packaged words, ascending."""
    text = resources.files("agentx.replay").joinpath("words.txt").read_text(encoding="ascii")
    return tuple(text.split())


@cache
def _table() -> NDArray[np.bytes_]:
    """Each word with its leading space, padded with zero bytes to one width."""
    return np.array([f" {word}".encode() for word in word_list()])


def own_name(*parts: str | int) -> int:
    """A name for text that no block integer stands for; equal parts, equal name."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return _OWN | int.from_bytes(digest, "little")


class Words:
    """The words of every name under one salt."""

    def __init__(self, salt: bytes) -> None:
        digest = hashlib.blake2b(salt, digest_size=16, person=b"agentx words").digest()
        self._offset, self._mask = np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def text(self, names: Names, first: NDArray[np.int64], count: NDArray[np.int64]) -> bytes:
        """Words `first` … `first + count − 1` of each name, each word with a leading space.

        The three arrays are of one length. Word i of a name is drawn by a counter-based hash, so
        that any part of a block is made without the rest.
        """
        starts = np.cumsum(count) - count
        number = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(starts - first, count)
        # The first mix is a bijection: two names never have the same state, so that their words
        # are independent draws, 11.7 bits each.
        state = np.repeat(_mix(names + self._offset), count)
        drawn = _mix((state + number.astype(np.uint64) * _GOLDEN) ^ self._mask)
        table = _table()
        index = ((drawn >> np.uint64(32)) * np.uint64(table.size)) >> np.uint64(32)
        padded: bytes = table[index].tobytes()
        return padded.translate(None, b"\0")


def _mix(value: Names) -> Names:
    """splitmix64's finaliser: a bijection in which every bit depends on every bit."""
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    mixed: Names = value ^ (value >> np.uint64(31))
    return mixed


def probe_words(count: int, seed: int) -> list[str]:
    """`count` words whose mean length is the list's, within rounding.

    A server that counts bytes shows the list's mean bytes a token for any two such texts. Another
    seed gives other words from the first on.
    """
    words = word_list()
    by_length: dict[int, list[str]] = {}
    for word in words:
        by_length.setdefault(len(word), []).append(word)
    name = np.array([own_name("probe", seed)], dtype=np.uint64)
    drawn = Words(b"probe").text(name, np.zeros(1, np.int64), np.array([count])).decode().split()
    surplus = sum(map(len, drawn)) - round(count * sum(map(len, words)) / len(words))
    # From the end, so that the beginning stays as drawn.
    for at in range(count - 1, -1, -1):
        if not surplus:
            break
        length = min(max(len(drawn[at]) - surplus, min(by_length)), max(by_length))
        surplus -= len(drawn[at]) - length
        group = by_length[length]
        drawn[at] = group[(seed + at) % len(group)]
    return drawn
