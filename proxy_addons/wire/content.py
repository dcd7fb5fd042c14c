"""What a model call says, whatever its dialect: blocks of content, usage, how it ended.

A dialect's module (`anthropic`, `chat`) knows where things stand in its JSON and in which order
they count; what a block's text is made of, and what of it counts, is decided by
`datasets.trace.segments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

BlockKind: TypeAlias = Literal[
    "tool_definition",
    "system",
    "user",
    "assistant",
    "thinking",
    "tool_call",
    "tool_result",
    "other",
]

UNNAMED_ERROR = "error"
"""The class of an error that does not say which one it is."""


@dataclass(frozen=True, slots=True)
class Media:
    """An image, document, audio or video inside a message."""

    image: bool
    data: str | None = None
    """base64, as sent."""
    text: str | None = None
    """A document given as text."""
    reference: str | None = None
    """Its URL or file id, where the bytes themselves are elsewhere."""


@dataclass(frozen=True, slots=True)
class Block:
    """One content block, as sent."""

    kind: BlockKind
    text: str | None = None
    """Of text and thinking; also of a result's text."""
    value: Any = None
    """Parsed JSON: a tool definition, a tool call's arguments (a string where they were sent as
    one), a block of another kind."""
    media: Media | None = None
    name: str | None = None
    """The tool's, of its definition, call and result."""
    call_id: str | None = None
    cache_control: Any = None
    signature: str | None = None
    """Of thinking; encrypted or redacted thinking has only this."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server reported them; None where it did not."""

    input: int | None = None
    """The whole prompt, cached or not."""
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A call of the model, as asked for."""

    model: str | None
    blocks: tuple[Block, ...]
    """In the order of the canonical token stream."""
    streamed: bool
    count_only: bool = False
    """It asks for a token count, not for an answer."""
    max_output: int | None = None
    output_schema: Any = None
    """The JSON schema that the answer must follow, if one was given."""
    body_session: str | None = None
    """A session's id, where the body carries one."""


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What came back, as far as it came."""

    model: str | None = None
    blocks: tuple[Block, ...] = ()
    usage: Usage = Usage()
    stop_reason: str | None = None
    error: str | None = None
    """The error's class, never its message."""
    first_output_ms: float | None = None
    """When the first output of any kind came, from the exchange's opening."""
