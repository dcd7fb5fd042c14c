"""What must hold of a session, whether it is about to be written or comes from a file."""

from __future__ import annotations

from typing import get_args

from agentx.datasets.errors import DatasetError
from agentx.datasets.trace.model import (
    BlockRuns,
    EdgeEvidence,
    Kind,
    Request,
    SegmentKind,
    Session,
    Status,
    ThinkKind,
)

MAX_BLOCKS = 1 << 22
"""Blocks of one request; bounds what a damaged row can make a reader allocate."""
_MAX_NUMBER = 1 << 52
"""Of tokens, milliseconds and block integers, so that sums stay exact."""

_KINDS = frozenset(get_args(Kind))
_STATUSES = frozenset(get_args(Status))
_THINK_KINDS = frozenset((*get_args(ThinkKind), None))
_EVIDENCE = frozenset((*get_args(EdgeEvidence), None))
_SEGMENT_KINDS = frozenset(get_args(SegmentKind))

_COUNTS = (
    "sent_ms",
    "first_output_ms",
    "end_ms",
    "think_ms",
    "opaque_tokens",
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "output_context_tokens",
    "tail_id",
)


def check_session(session: Session, block_size: int) -> None:
    """Check that a session's parts fit together.

    Raises:
        DatasetError: with the session, the request and what does not hold.
    """
    agents = {agent.agent_id for agent in session.agents}
    if len(agents) != len(session.agents):
        raise DatasetError(f"session {session.session_id}: two agents have the same agent_id")
    for position, request in enumerate(session.requests):
        wrong = _wrong(session, position, request, agents, block_size)
        if wrong:
            raise DatasetError(f"session {session.session_id}, request {position}: {wrong}")
    for segment in session.segments:
        if not 0 <= segment.request < len(session.requests):
            raise DatasetError(f"session {session.session_id}: a segment of no request")
        if segment.kind not in _SEGMENT_KINDS or segment.tokens < 0 or segment.position < 0:
            raise DatasetError(
                f"session {session.session_id}, request {segment.request}: a segment is damaged"
            )


def _wrong(
    session: Session, position: int, request: Request, agents: set[str], block_size: int
) -> str | None:
    if request.request != position:
        return f"its number is {request.request}"
    if request.agent_id not in agents:
        return f"its agent {request.agent_id!r} is not among the session's agents"
    if request.kind not in _KINDS:
        return f"unknown kind {request.kind!r}"
    if request.status not in _STATUSES:
        return f"unknown status {request.status!r}"
    if request.think_kind not in _THINK_KINDS:
        return f"unknown think_kind {request.think_kind!r}"
    if request.edge_evidence not in _EVIDENCE:
        return f"unknown edge_evidence {request.edge_evidence!r}"
    if request.spawned_by is not None and not 0 <= request.spawned_by < position:
        return f"spawned_by {request.spawned_by} is no earlier request"
    if request.waits_for and not all(0 <= other < position for other in request.waits_for):
        return "waits_for names a request that is not earlier"
    for name in _COUNTS:
        value = getattr(request, name)
        if value is not None and not 0 <= value < _MAX_NUMBER:
            return f"{name} is {value}"
    return _wrong_prefix(session, position, request, block_size)


def _wrong_prefix(session: Session, position: int, request: Request, block_size: int) -> str | None:
    if not 0 <= request.context_tokens < _MAX_NUMBER:
        return f"context_tokens is {request.context_tokens}"
    if not 0 <= request.blocks <= MAX_BLOCKS:
        return f"blocks is {request.blocks}, not within 0 and {MAX_BLOCKS}"
    if request.blocks * block_size > request.context_tokens:
        return f"{request.blocks} full blocks do not fit into {request.context_tokens} tokens"
    keep_blocks, keep_tokens = request.keep_blocks or 0, request.keep_tokens or 0
    if request.parent is None:
        if not request.keyframe:
            return "it has neither a parent nor a whole block list (keyframe)"
        if request.keep_blocks is not None or request.keep_tokens is not None:
            return "it keeps something but has no parent"
    else:
        if not 0 <= request.parent < position:
            return f"parent {request.parent} is no earlier request"
        parent = session.requests[request.parent]
        if parent.agent_id != request.agent_id:
            return f"parent {request.parent} is another agent's"
        if not 0 <= keep_blocks <= min(parent.blocks, request.blocks):
            return f"keep_blocks {keep_blocks} is more than it or its parent has"
        if not 0 <= keep_tokens <= min(parent.context_tokens, request.context_tokens):
            return f"keep_tokens {keep_tokens} is more than it or its parent has"
        if request.keep_blocks is None and not request.keyframe:
            return "keep_blocks is missing"
    return _wrong_runs(request.append, request.blocks - (0 if request.keyframe else keep_blocks))


def _wrong_runs(runs: BlockRuns, expected: int) -> str | None:
    starts, lengths = runs
    if len(starts) != len(lengths):
        return "append_start and append_len differ in length"
    if starts and (min(starts) < 0 or max(starts) >= _MAX_NUMBER):
        return "append_start has a number out of range"
    if lengths and min(lengths) < 1:
        return "append_len has a run without blocks"
    total = sum(lengths)
    return None if total == expected else f"its runs hold {total} blocks instead of {expected}"


class Numbering:
    """Checks that block integers are dense in order of first use, over a data set's sessions.

    An integer is then at most the count of those before it, so that nobody who indexes an array
    by it needs more memory than the data set has blocks.
    """

    def __init__(self) -> None:
        self.count = 0

    def check(self, session: Session) -> None:
        """Take the next session in stored order; a gap raises DatasetError."""
        count = self.count
        for request in session.requests:
            for start, size in zip(*request.append, strict=True):
                if start > count:
                    self._fail(session, request, start, count)
                count = max(count, start + size)
            if request.tail_id is not None:
                if request.tail_id > count:
                    self._fail(session, request, request.tail_id, count)
                count = max(count, request.tail_id + 1)
        self.count = count

    def _fail(self, session: Session, request: Request, block: int, count: int) -> None:
        raise DatasetError(
            f"session {session.session_id}, request {request.request}: block integer {block} is "
            f"out of order; integers are dense in order of first use, and the next is {count}"
        )
