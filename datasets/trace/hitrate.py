"""Theoretical hit rates: what a cache that never evicts would have found.

A request's hit is the longest prefix of its blocks that were all seen before, in tokens, and never
more than its context. Where one is counted (`agent`, `session`, `dataset`) is decided by whoever
feeds `SeenBlocks`: what it has been given is what was seen.

A tail (the tokens after the last full block) mostly has no integer, so that nobody can tell
whether a child's next block begins with it. Whole blocks alone are the lower bound. The upper one
assumes it of every append-only child, as replay writes it: the larger of the hit and
`shared_tokens`. A server with live history has also seen the outputs it gave itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentx.datasets.trace.block_runs import Blocks
from agentx.datasets.trace.model import Request

_FIRST_SIZE = 1 << 12


class SeenBlocks:
    """The blocks of earlier requests of one scope.

    Block integers index an array of the scope in which each was last seen, so that a new scope
    (`forget`) costs nothing.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._scope = 1
        self._seen_in: NDArray[np.int32] = np.zeros(_FIRST_SIZE, dtype=np.int32)
        self.distinct = 0
        """Full blocks seen, each counted once."""

    def forget(self) -> None:
        """Begin a new scope: nothing has been seen."""
        self._scope += 1
        self.distinct = 0

    def hit_blocks(self, blocks: Blocks) -> int:
        """How many leading full blocks have all been seen."""
        if blocks.size == 0:
            return 0
        if blocks.max() >= self._seen_in.size:
            blocks = blocks[: int((blocks >= self._seen_in.size).argmax())]
            if blocks.size == 0:
                return 0
        new = self._seen_in[blocks] != self._scope
        first = int(new.argmax())
        return first if new[first] else blocks.size

    def hit_tokens(self, blocks: Blocks, context_tokens: int, tail_id: int | None = None) -> int:
        """Tokens of the longest prefix seen; all of them where a seen tail completes it."""
        hit = self.hit_blocks(blocks)
        if hit == blocks.size and tail_id is not None and self._has(tail_id):
            return context_tokens
        return min(hit * self._block_size, context_tokens)

    def add(self, blocks: Blocks, tail_id: int | None = None) -> None:
        """Take a request's blocks as seen."""
        highest = max(int(blocks.max()) if blocks.size else 0, tail_id or 0)
        if highest >= self._seen_in.size:
            grown = np.zeros(max(highest + 1, 2 * self._seen_in.size), dtype=np.int32)
            grown[: self._seen_in.size] = self._seen_in
            self._seen_in = grown
        self.distinct += int(np.count_nonzero(self._seen_in[blocks] != self._scope))
        self._seen_in[blocks] = self._scope
        if tail_id is not None:
            self._seen_in[tail_id] = self._scope

    def hit_then_add(self, blocks: Blocks, context_tokens: int, tail_id: int | None = None) -> int:
        """A request's hit tokens; from then on its own blocks count as seen."""
        hit = self.hit_tokens(blocks, context_tokens, tail_id)
        self.add(blocks, tail_id)
        return hit

    def _has(self, block: int) -> bool:
        return block < self._seen_in.size and bool(self._seen_in[block] == self._scope)


def is_append_only(request: Request, parent: Request) -> bool:
    """Whether all full blocks of the parent's context begin this one's."""
    return request.keep_blocks == parent.blocks


def shared_tokens(request: Request, parent: Request | None, *, output: bool) -> int:
    """Tokens that a request shares with what its parent left, if tails are shared as well.

    0 where it is not append-only: then only whole blocks count. With `output` the parent's output
    follows its context: min(output as it reappears, or else its length; appended tokens − 1), as
    replay writes it; an unknown length counts as none.
    """
    if parent is None or not is_append_only(request, parent):
        return 0
    appended = request.context_tokens - parent.context_tokens
    if not output or appended <= 0:
        return min(parent.context_tokens, request.context_tokens)
    length = parent.output_context_tokens
    if length is None:
        length = parent.output_tokens or 0
    return parent.context_tokens + min(length, appended - 1)


@dataclass(frozen=True, slots=True)
class HitRate:
    """Shares of input tokens; None where there is no input."""

    token_weighted: float | None
    request_mean: float | None
    request_median: float | None


def hit_rate(hits: ArrayLike, contexts: ArrayLike) -> HitRate:
    """Rates of requests with these hit tokens and context tokens; an empty context counts not."""
    hit, context = np.asarray(hits, dtype=np.float64), np.asarray(contexts, dtype=np.float64)
    hit, context = hit[context > 0], context[context > 0]
    if not context.size:
        return HitRate(None, None, None)
    shares = hit / context
    return HitRate(float(hit.sum() / context.sum()), float(shares.mean()), float(np.median(shares)))
