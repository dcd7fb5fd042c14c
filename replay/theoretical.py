"""What a cache that never evicts would have hit in a run, in the order in which it was sent.

Worked out after the run, over the prompts that the server really took. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from agentx.datasets.trace.block_runs import decode, whole_runs
from agentx.datasets.trace.hitrate import SeenBlocks, shared_tokens
from agentx.datasets.trace.model import BlockRuns, Session


class Taken(NamedTuple):
    """A request that was sent, and whether the server took its prompt."""

    session_id: str
    request: int
    taken: bool


class Hit(NamedTuple):
    """Tokens of a prompt that had been seen, in the trace's tokens."""

    blocks: int
    """Whole blocks alone: what is promised."""
    upper: int
    """If a server's finer blocks also share the tail: the parent's, or another session's."""


Key: TypeAlias = tuple[str, int]
"""A session's id and a request of it."""


@dataclass(slots=True)
class _Open:
    session: Session
    runs: list[BlockRuns]
    left: int
    """Requests of it that are still to come."""
    own: SeenBlocks
    """Blocks of its prompts that were taken."""
    seen: set[int] = field(default_factory=set)
    """Requests of it whose prompts were taken."""


def theoretical_hits(
    order: Sequence[Taken], load: Callable[[str], Session], block_size: int
) -> dict[Key, Hit]:
    """Hits of every prompt that was taken; `order` is that of the sends.

    A session is loaded when its first request comes and dropped after its last, so that no more
    are held than ran at once.
    """
    left = Counter(sent.session_id for sent in order)
    seen = SeenBlocks(block_size)
    open_sessions: dict[str, _Open] = {}
    hits: dict[Key, Hit] = {}
    for sent in order:
        at = open_sessions.get(sent.session_id)
        if at is None:
            session = load(sent.session_id)
            runs = list(whole_runs(session.requests))
            at = _Open(session, runs, left[sent.session_id], SeenBlocks(block_size))
            open_sessions[sent.session_id] = at
        if sent.taken:
            hits[sent.session_id, sent.request] = _hit(at, sent.request, seen, block_size)
        at.left -= 1
        if not at.left:
            del open_sessions[sent.session_id]
    return hits


def _hit(at: _Open, index: int, seen: SeenBlocks, block_size: int) -> Hit:
    request = at.session.requests[index]
    blocks = decode(at.runs[index])
    hit = seen.hit_then_add(blocks, request.context_tokens, request.tail_id)
    own = at.own.hit_then_add(blocks, request.context_tokens, request.tail_id)
    parent = request.parent
    # What another session's prompt had after the blocks that it shares is not told.
    upper = min(request.context_tokens, hit + block_size - 1) if hit > own else hit
    if parent is not None and parent in at.seen:
        upper = max(upper, shared_tokens(request, at.session.requests[parent], output=False))
    at.seen.add(index)
    return Hit(hit, upper)


def taken(rows: Iterable[tuple[str, int, float, int | None]]) -> list[Taken]:
    """Rows of (session_id, request, sent_ms, HTTP status) in the order of their sends.

    A server that answered with success took the prompt, whatever became of its answer.
    """
    return [
        Taken(session_id, request, status is not None and 200 <= status < 300)
        for session_id, request, _, status in sorted(rows, key=lambda row: row[2])
    ]
