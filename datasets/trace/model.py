"""The words of a trace as frozen data: sessions, agents, requests.

Every module above speaks in these. Times are integer milliseconds from the session's start,
block names are integers unique in the data set, and what is unknown is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MAIN_AGENT = "main"

Kind: TypeAlias = Literal[
    "main", "subagent", "title", "compaction", "count_tokens", "probe", "other"
]
"""What a request is for. Everything but `main` and `subagent` is auxiliary."""

Status: TypeAlias = Literal["ok", "error", "cancelled", "partial"]
"""How the exchange ended."""

ThinkKind: TypeAlias = Literal["tool", "user"]
"""Whether the time before a request was a tool's or a person's."""

EdgeEvidence: TypeAlias = Literal["id", "prompt", "prefix", "position"]
"""What a request's place in the tree rests on, strongest first."""

SegmentKind: TypeAlias = Literal[
    "tool_definition",
    "system",
    "user",
    "assistant",
    "thinking",
    "tool_call",
    "tool_result",
    "other",
]
"""Kinds of segments; the order is that of their marker tokens (n_vocab + index)."""

BlockRuns: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A list of block integers as (starts, lengths): each run is start, start + 1, …"""


@dataclass(frozen=True, slots=True)
class Segment:
    """One content block that a request appends to what it keeps of its parent."""

    session_id: str
    request: int
    position: int
    """0.. within the request's context, kept segments counted."""
    kind: SegmentKind
    tokens: int
    """Marker included."""
    tool_name: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the model, and what it shares with the call before it."""

    session_id: str
    request: int
    """0.. in order of sending within the session."""
    agent_id: str
    kind: Kind
    context_tokens: int
    """Tokens of the prompt: our count, or the source's of an import."""
    blocks: int
    """Full blocks of the context."""
    keyframe: bool
    """True: the runs are the whole block list. False: they follow `keep_blocks` of the parent's."""
    append: BlockRuns
    parent: int | None = None
    waits_for: tuple[int, ...] | None = None
    spawned_by: int | None = None
    """The request whose tool call started this request's agent; equal for all of an agent's."""
    model: str | None = None
    sent_ms: int | None = None
    first_output_ms: int | None = None
    end_ms: int | None = None
    think_ms: int | None = None
    think_source_ms: int | None = None
    think_kind: ThinkKind | None = None
    opaque_tokens: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_context_tokens: int | None = None
    keep_tokens: int | None = None
    keep_blocks: int | None = None
    tail_id: int | None = None
    """An import's integer of the partial last block, from the same numbering as the full ones."""
    prefix_breakers: tuple[str, ...] | None = None
    status: Status = "ok"
    stop_reason: str | None = None
    error: str | None = None
    tool_names: tuple[str, ...] | None = None
    edge_evidence: EdgeEvidence | None = None
    edge_confidence: float | None = None
    input_types: tuple[str, ...] | None = None
    output_types: tuple[str, ...] | None = None
    streamed: bool | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """One line of conversation inside a session."""

    session_id: str
    agent_id: str
    spawned_by: int | None = None
    agent_type: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    duration_ms: int | None = None
    """As the source says; not end − start."""
    status: str | None = None
    entry: int | None = None
    """Where an import's entry of this agent stood among its session's entries, 0.."""
    tool_tokens: int | None = None
    system_tokens: int | None = None
    total_tokens: int | None = None
    tool_use_count: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One task of one user: a tree of requests. `requests[i].request == i`."""

    session_id: str
    source: str
    agents: tuple[Agent, ...]
    requests: tuple[Request, ...]
    start_ms: int | None = None
    """From the data set's start."""
    contributor: int | None = None
    segments: tuple[Segment, ...] = field(default=())
