"""What each call keeps of its parent's context, exactly, and its blocks by the data set's integers.

Pure but for the segments' tokens, which are asked for only where two contexts part and where new
blocks are hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agentx.datasets.recorded import Numbers, Recorded
from agentx.datasets.trace.block_runs import Blocks, Linked, link
from agentx.datasets.trace.blocks import BLOCK_SIZE, chain
from agentx.datasets.trace.tokens import Tokens


class BlockNumbers:
    """Gives block hashes the data set's integers: dense, in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._hashes: list[bytes] = []

    def number(self, digest: bytes) -> int:
        """A block's integer; the next one, if it is new."""
        number = self._numbers.setdefault(digest, len(self._hashes))
        if number == len(self._hashes):
            self._hashes.append(digest)
        return number

    def digest(self, number: int) -> bytes:
        """The hash that an integer stands for."""
        return self._hashes[number]


@dataclass(frozen=True, slots=True)
class Context:
    """A call's context as the stream of its tokens."""

    segments: Numbers
    starts: Blocks
    """Where each segment begins, and at last where the context ends, in tokens."""

    @property
    def tokens(self) -> int:
        """Its length."""
        return int(self.starts[-1])


@dataclass(frozen=True, slots=True)
class Prefix:
    """How a call's context lies to its parent's."""

    context: Context
    linked: Linked
    keep_tokens: int | None
    keep_segments: int
    """Segments that are the parent's, from the first on."""


class Prefixes:
    """Works out prefixes; one for a data set."""

    def __init__(
        self,
        tokens_of: Callable[[int], Tokens],
        count_of: Callable[[int], int],
        key: bytes,
    ) -> None:
        self._tokens_of = tokens_of
        self._count_of = count_of
        self._key = key
        self._numbers = BlockNumbers()

    def prefix(self, call: Recorded, parent: Prefix | None) -> Prefix:
        """A call's context against its parent's."""
        counts = [self._count_of(segment) for segment in call.context.tolist()]
        starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        context = Context(call.context, starts)
        if parent is None:
            return Prefix(context, link(self._blocks(context, None, 0), None), None, 0)
        same = common(context.segments, parent.context.segments)
        keep = int(starts[same]) + self._within(context, parent.context, same)
        blocks = self._blocks(context, parent.linked.blocks, keep // BLOCK_SIZE)
        return Prefix(context, link(blocks, parent.linked), keep, same)

    def _within(self, one: Context, other: Context, at: int) -> int:
        """Tokens that two contexts share from their first different segment on."""
        shared = 0
        for a, b in zip(one.segments[at:].tolist(), other.segments[at:].tolist(), strict=False):
            first, second = self._tokens_of(a), self._tokens_of(b)
            length = common(first, second)
            shared += length
            if length < max(len(first), len(second)):
                break
        return shared

    def _blocks(self, context: Context, kept_of: Blocks | None, kept: int) -> Blocks:
        """The context's full blocks, of which the first `kept` are `kept_of`'s."""
        begin = kept * BLOCK_SIZE
        first = int(np.searchsorted(context.starts, begin, side="right")) - 1
        pieces = [self._tokens_of(s) for s in context.segments[first:].tolist()]
        before = None
        head = np.empty(0, dtype=np.int64)
        if kept_of is not None and kept:
            head = kept_of[:kept]
            before = self._numbers.digest(int(head[-1]))
        if not pieces:
            return head
        new = np.concatenate(pieces)[begin - int(context.starts[first]) :]
        numbers = [self._numbers.number(digest) for digest in chain(new, self._key, before)]
        return np.concatenate((head, np.array(numbers, dtype=np.int64)))


def common(one: Tokens, other: Tokens) -> int:
    """How many leading numbers two arrays share."""
    size = min(len(one), len(other))
    same = one[:size] == other[:size]
    return size if same.all() else int(np.argmin(same))
