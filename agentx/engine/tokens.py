"""Prompts as tokens: a word, split at white space, is a token; blocks are named by a running hash.

A block's name is the BLAKE2b hash (16 bytes) of all tokens up to its end. One hash object runs over
the prompt and is copied at the end of each block, so that a name depends on everything before it,
as a chain of hashes does, at the price of hashing each byte once. Words enter with a space after
each, which no word contains; token ids enter as little-endian uint32; the two have hashes of their
own (BLAKE2b's `person`), so that no word is ever taken for an id.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from agentx.engine.cache import BLOCK_SIZE, Name

_NAME_BYTES = 16


class TokenChain:
    """The names of the blocks of a growing list of tokens, words or ids, never both."""

    __slots__ = ("_hash", "tokens")

    def __init__(self, running_hash: blake2b, tokens: int = 0) -> None:
        self._hash = running_hash
        self.tokens = tokens

    @classmethod
    def of_words(cls) -> TokenChain:
        """The start of a prompt of words."""
        return cls(blake2b(digest_size=_NAME_BYTES, person=b"words"))

    @classmethod
    def of_ids(cls) -> TokenChain:
        """The start of a prompt of token ids."""
        return cls(blake2b(digest_size=_NAME_BYTES, person=b"ids"))

    def copy(self) -> TokenChain:
        """A chain that goes on from here by itself."""
        return TokenChain(self._hash.copy(), self.tokens)

    def digest(self) -> bytes:
        """16 bytes that stand for all tokens so far, a partial block's too."""
        return self._hash.digest()

    def add_words(self, words: Sequence[str]) -> list[Name]:
        """Append words; returns the names of the blocks that they fill."""

        def piece(start: int, stop: int) -> bytes:
            return (" ".join(words[start:stop]) + " ").encode()

        return self._add(len(words), piece)

    def add_ids(self, ids: Iterable[int]) -> list[Name]:
        """Append token ids below 2^32; returns the names of the blocks that they fill."""
        packed = array("I", iter(ids))  # From bytes themselves, array() would take four at a time.
        if sys.byteorder == "big":
            packed.byteswap()
        return self._add(len(packed), lambda start, stop: packed[start:stop].tobytes())

    def _add(self, count: int, piece: Callable[[int, int], bytes]) -> list[Name]:
        running = self._hash
        names: list[Name] = []
        start = 0
        stop = BLOCK_SIZE - self.tokens % BLOCK_SIZE
        while stop <= count:
            running.update(piece(start, stop))
            names.append(running.copy().digest())
            start, stop = stop, stop + BLOCK_SIZE
        if start < count:
            running.update(piece(start, count))
        self.tokens += count
        return names
