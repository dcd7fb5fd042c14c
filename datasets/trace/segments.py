"""From content blocks to the segments of the canonical token stream, and what breaks a prefix.

docs/canonical-stream.md has the rules. A dialect's parser has put the blocks in order; here it is
decided which of them count, and what their text is.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson

from agentx.datasets.trace.media import Opaque, opaque
from agentx.datasets.trace.model import SegmentKind
from agentx.proxy_addons.wire.content import Block

BILLING = "x-anthropic-billing-header:"
"""How a system block begins that is for the vendor's accounts and changes between requests."""

_UNCOUNTED = frozenset({"cache_control", "defer_loading"})
_CALL_IDS = frozenset({"id", "tool_use_id", "tool_call_id", "call_id"})

Breaker: TypeAlias = Literal["cache_control", "billing", "space", "call_id", "signature"]
BREAKERS: tuple[Breaker, ...] = ("cache_control", "billing", "space", "call_id", "signature")


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a server gets with a segment though the canonical stream leaves it out.

    Texts as sent; None where there is nothing. What stands between two segments (a billing
    block, redacted thinking) belongs to the one after it.
    """

    cache_control: str | None = None
    billing: str | None = None
    space: str | None = None
    call_id: str | None = None
    signature: str | None = None


NOTHING_UNSEEN = Unseen()


@dataclass(frozen=True, slots=True)
class ContextSegment:
    """One segment of a context: text, or media with a text that is empty."""

    kind: SegmentKind
    text: str
    media: Opaque | None = None
    tool_name: str | None = None
    unseen: Unseen = NOTHING_UNSEEN


def segments(blocks: Iterable[Block]) -> Iterator[ContextSegment]:
    """The segments of a context, or of an answer, in order; empty ones are left out."""
    billing: list[str] = []
    hidden: list[str] = []
    for block in blocks:
        if block.media is not None:
            segment = ContextSegment("other", "", opaque(block.media), block.name)
            raw = ""
        else:
            raw = text_of(block)
            segment = ContextSegment(block.kind, raw.strip(), None, block.name)
        if block.kind == "system" and segment.text.startswith(BILLING):
            billing.append(segment.text)
        elif not segment.text and segment.media is None:
            if block.signature is not None:
                hidden.append(block.signature)
        else:
            if block.signature is not None:
                hidden.append(block.signature)
            yield _with_unseen(segment, block, raw, billing, hidden)
            billing.clear()
            hidden.clear()


def _with_unseen(
    segment: ContextSegment, block: Block, raw: str, billing: list[str], hidden: list[str]
) -> ContextSegment:
    mark = block.cache_control
    trimmed = len(raw) != len(segment.text)
    if mark is None and not trimmed and block.call_id is None and not billing and not hidden:
        return segment
    unseen = Unseen(
        cache_control=None if mark is None else compact_json(mark),
        billing="\n".join(billing) if billing else None,
        space="\0".join(_space(raw)) if trimmed else None,
        call_id=block.call_id,
        signature="\n".join(hidden) if hidden else None,
    )
    return ContextSegment(segment.kind, segment.text, segment.media, segment.tool_name, unseen)


def _space(raw: str) -> tuple[str, str]:
    """What trimming takes away before and after."""
    start = len(raw) - len(raw.lstrip())
    return raw[:start], raw[len(raw.rstrip()) :]


def text_of(block: Block) -> str:
    """A block's text, not yet trimmed."""
    value = block.value
    if block.text is not None:
        return block.text
    if block.kind == "tool_call":
        return f"{block.name or ''}\n{_arguments(value)}"
    if isinstance(value, dict):
        out = _UNCOUNTED if block.kind == "tool_definition" else _UNCOUNTED | _CALL_IDS
        value = {key: entry for key, entry in value.items() if key not in out}
    return compact_json(value)


def _arguments(value: Any) -> str:
    """A call's arguments: one form, whether they were sent as JSON or as JSON in a string."""
    if value is None:
        return "{}"
    if not isinstance(value, str):
        return compact_json(value)
    try:
        return orjson.dumps(orjson.loads(value)).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return value


def compact_json(value: Any) -> str:
    """A parsed value as JSON without blanks, keys in the order sent."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        # orjson reads deeper nesting than it writes.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Mark: TypeAlias = tuple[int, int, Hashable]
"""(position of a segment, index among BREAKERS, what stands there or a hash of it)."""


def marks(context: Sequence[ContextSegment]) -> Iterator[tuple[int, int, str]]:
    """What the canonical stream leaves out of a context, and where."""
    for at, segment in enumerate(context):
        if segment.unseen is not NOTHING_UNSEEN:
            for index, name in enumerate(BREAKERS):
                value = getattr(segment.unseen, name)
                if value is not None:
                    yield at, index, value


def prefix_breakers(
    parent: Iterable[Mark], child: Iterable[Mark], kept: int
) -> tuple[Breaker, ...]:
    """What differs within the first `kept` segments of two contexts, which are equal as segments.

    A server that tokenises these things, or looks at them, loses the prefix there.
    """
    one = {mark for mark in parent if mark[0] < kept}
    other = {mark for mark in child if mark[0] < kept}
    return tuple(BREAKERS[index] for index in sorted({index for _, index, _ in one ^ other}))
