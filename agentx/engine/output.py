"""What the engine says: words, and how many, drawn from the hash of the prompt alone.

The same prompt gets the same answer on every machine and in every run, so that a replay repeats
itself; the words mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import shake_128

from agentx.engine.cache import BLOCK_SIZE, Name
from agentx.engine.prompts import Prompt

# Plain letters only: no JSON escape, no white space.
_LIST = """
the of and to in is that it was for on are as with his they at be this from have or by one had not
but what all were when we there can an your which their said if do will each about how up out them
then she many some so these would other into has more two
"""
WORDS = tuple(_LIST.split())

MEAN_TOKENS = 200
"""Mean length of an answer that nothing limits."""

_PIECE = 4096
_TO_INDEX = bytes(value % len(WORDS) for value in range(256))


class Output:
    """The answer to one prompt: an endless list of words, of which the first ones are said."""

    __slots__ = ("_indices", "_seed", "natural_tokens")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._indices = b""
        draw = int.from_bytes(shake_128(b"length" + seed).digest(6), "little") / 2**48
        self.natural_tokens = 1 + int(-math.log1p(-draw) * (MEAN_TOKENS - 0.5))
        """Where it ends by itself: exponentially distributed, at least 1."""

    def indices(self, start: int, stop: int) -> bytes:
        """Words `start` to `stop` as indices into `WORDS`."""
        while len(self._indices) < stop:
            piece = len(self._indices) // _PIECE
            drawn = shake_128(self._seed + piece.to_bytes(4, "little")).digest(_PIECE)
            self._indices += drawn.translate(_TO_INDEX)
        return self._indices[start:stop]

    def text(self, stop: int) -> str:
        """The first `stop` words, with one space between."""
        return " ".join([WORDS[index] for index in self.indices(0, stop)])

    def block_names(self, prompt: Prompt) -> Iterator[Name]:
        """Names of the blocks that this output fills after its prompt, without end.

        After a prompt of token ids, an output word counts as its index.
        """
        chain = prompt.chain.copy()
        start = 0
        while True:
            stop = start + BLOCK_SIZE - chain.tokens % BLOCK_SIZE
            indices = self.indices(start, stop)
            if prompt.vocabulary == "ids":
                yield from chain.add_ids(indices)
            else:
                yield from chain.add_words([WORDS[index] for index in indices])
            start = stop
