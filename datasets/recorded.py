"""A model call as a build keeps it: no text, only what its session and its prefixes are found by.

Texts become keyed hashes: of a segment as a whole, of a tool call's string arguments (a subagent's
prompt among them), of a text's longer lines, and of what may be an id in a text. So everything
that follows works without the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from agentx.datasets.trace.model import SegmentKind, Status
from agentx.datasets.trace.segments import ContextSegment, marks
from agentx.proxy_addons.wire.content import ModelRequest, Usage

Numbers = NDArray[np.uint32]
"""Segments by the numbers that the build gave them."""

Hash = int
"""64 bits of a keyed hash."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{5,63}")
_MIN_LENGTH = 16
"""Of a line, or of an argument: shorter ones are equal by chance."""
_MAX_HASHES = 1000
"""Of lines, of ids, of arguments: bounds what one long text adds."""

_PROMPT_TAG = re.compile(
    r"<(task|prompt|query|user_query|request|message|instructions?|objective)>"
)
_MAX_TAGS = 20

_TITLE = re.compile(r"\btitle\b", re.IGNORECASE)
_COMPACTION = re.compile(
    r"\b(create|generate|produce|provide|write) (a|an|the) [\w, -]{0,80}"
    r"(summary of|prompt for continuing) (the|our|this) conversation",
    re.IGNORECASE,
)
_INSTRUCTION = 200
"""Characters that an agent's instruction for a summary has at least; a person's wish is shorter."""
_OPENING = 1000
"""Of these, the ones that must say it."""


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What is known of a distinct segment."""

    kind: SegmentKind
    tokens: int
    """Marker included."""
    opaque: int
    """Of these, assumed ones."""
    tool_name: str | None
    text: Hash
    """Of the text alone, whatever its kind."""
    mentions: frozenset[Hash]
    """Of a call: its longer string arguments. Of a text: its longer lines and what may be ids."""
    wrapped: frozenset[Hash] = frozenset()
    """Of a user's text: what stands in it between `<task>` and `</task>` and the like."""

    @property
    def texts(self) -> frozenset[Hash]:
        """What a tool call may have given it as a prompt: the whole, or what is wrapped in it."""
        return self.wrapped | {self.text}


Facts: TypeAlias = Callable[[int], SegmentFacts]
"""A segment's facts by its number."""

ANSWERS = frozenset({"assistant", "thinking", "tool_call"})
"""Kinds of segments that a model wrote."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One model call. `context` and `answer` are segments by number."""

    opened_ms: float
    first_output_ms: float | None
    """From the opening, as `end_ms`."""
    end_ms: float | None
    session: str | None
    agent: str | None
    parent_session: str | None
    own_id: Hash | None
    """Of the agent's id, or of its session's: what a result may name it by."""
    model: str | None
    status: Status
    streamed: bool
    stop_reason: str | None
    error: str | None
    usage: Usage
    count_only: bool
    max_output: int | None
    hints: tuple[str, ...]
    """What it says it is for: `title` by its schema, `title?` and `compaction?` by words."""
    call_ids: tuple[tuple[int, Hash], ...]
    """(position in the context, id) of its tool calls and results."""
    answer_ids: tuple[tuple[int, Hash], ...]
    """(position in the answer, id) of its tool calls."""
    unseen: tuple[tuple[int, int, Hash], ...]
    """(position, index among BREAKERS, hash) of what the canonical stream leaves out."""
    context: Numbers
    answer: Numbers


def hash_text(text: str, key: bytes) -> Hash:
    """A keyed hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "little")


def segment_key(segment: ContextSegment, key: bytes) -> bytes:
    """A keyed hash of all that makes a segment what it is."""
    state = hashlib.blake2b(digest_size=16, key=key)
    state.update(f"{segment.kind}\0{segment.tool_name or ''}\0".encode())
    if segment.media is not None:
        state.update(b"media" + segment.media.tokens.to_bytes(4, "little") + segment.media.digest)
    else:
        state.update(b"text" + segment.text.encode())
    return state.digest()


def mentions(segment: ContextSegment, key: bytes) -> frozenset[Hash]:
    """Hashes of what other calls may be found by in a segment."""
    match segment.kind:
        case "tool_call":
            found = _string_arguments(segment.text)
        case "user" | "tool_result" | "other":
            found = [*_lines(segment.text), *_ids(segment.text)]
        case "assistant":
            found = _lines(segment.text)
        case _:
            found = []
    return frozenset(hash_text(text, key) for text in found)


def _string_arguments(text: str) -> list[str]:
    """The longer strings among a call's arguments, as a message would carry them: trimmed."""
    try:
        arguments = orjson.loads(text.partition("\n")[2])
    except orjson.JSONDecodeError:
        return []
    texts = (value.strip() for value in _strings(arguments))
    return [text for text in texts if len(text) >= _MIN_LENGTH][:_MAX_HASHES]


def _strings(arguments: object) -> Iterator[str]:
    """The strings in lists and objects, at any depth; those of the top level first."""
    level = [arguments]
    while level:
        inner: list[object] = []
        for value in level:
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        level = inner


def wrapped(segment: ContextSegment, key: bytes) -> frozenset[Hash]:
    """Hashes of what a user's text has between the tags that agents put around a prompt."""
    if segment.kind != "user":
        return frozenset()
    found = []
    for tag in islice(_PROMPT_TAG.finditer(segment.text), _MAX_TAGS):
        end = segment.text.find(f"</{tag[1]}>", tag.end())
        inner = segment.text[tag.end() : max(end, 0)].strip()
        if len(inner) >= _MIN_LENGTH:
            found.append(inner)
    return frozenset(hash_text(text, key) for text in found)


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if len(line) >= _MIN_LENGTH][:_MAX_HASHES]


def _ids(text: str) -> list[str]:
    words = (found[0] for found in _ID.finditer(text))
    return [w for w in dict.fromkeys(words) if any(map(str.isdigit, w))][:_MAX_HASHES]


def hints(request: ModelRequest, context: list[ContextSegment]) -> tuple[str, ...]:
    """What a request says it is for, by its schema or its wording."""
    found = []
    schema = request.output_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    system = (segment.text for segment in context if segment.kind == "system")
    if isinstance(properties, dict) and "title" in properties:
        found.append("title")
    elif any(map(_TITLE.search, system)):
        found.append("title?")
    last = next((segment for segment in reversed(context) if segment.kind != "system"), None)
    if last is not None and last.kind == "user" and _asks_for_summary(last.text):
        found.append("compaction?")
    return tuple(found)


def _asks_for_summary(text: str) -> bool:
    return len(text) >= _INSTRUCTION and _COMPACTION.search(text[:_OPENING]) is not None


def call_id_hashes(segments: list[ContextSegment], key: bytes) -> tuple[tuple[int, Hash], ...]:
    """Where a context, or an answer, names tool calls by their ids."""
    return tuple(
        (at, hash_text(s.unseen.call_id, key))
        for at, s in enumerate(segments)
        if s.unseen.call_id is not None
    )


def unseen_hashes(context: list[ContextSegment], key: bytes) -> tuple[tuple[int, int, Hash], ...]:
    """What the canonical stream leaves out of a context, and where."""
    return tuple((at, index, hash_text(value, key)) for at, index, value in marks(context))
