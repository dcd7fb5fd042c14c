"""Who sent a request, out of its body: identifiers become keyed hashes. Pure.

Claude Code names device and account in `metadata.user_id`, OpenAI's clients a user in `user` or
`safety_identifier`. Only those values are rewritten; every other byte stays as it was sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from agentx.proxy_addons.wire.values import parse_json

PARSE_UP_TO = 8 << 20
"""Bytes of a body that is parsed to tell its top level; parsing a longer one holds up the proxy."""

_IDENTIFYING = ("metadata", "user", "safety_identifier")
_TELLS_CALLS_APART = frozenset(
    ("agent_id", "conversation_id", "request_id", "session_id", "thread_id", "trace_id", "turn_id")
)
"""Names of identifiers that tell calls apart, not people; they are kept."""

_CLAUDE_CODE_USER = re.compile(r"user_(\w+?)_account_([\w-]*?)_session_([\w-]+)")
"""How Claude Code wrote `user_id` before it was JSON: device, account, session."""

_AFTER_KEY = re.compile(rb"\s*:\s*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_OR_BRACE = re.compile(_STRING.pattern + rb"|[{}]", re.DOTALL)
_LONGEST_VALUE = 64 << 10


class Pseudonyms:
    """Identifiers to keyed hashes: equal stays equal, and nobody without the key can go back."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, identifier: str) -> str:
        """32 hex digits; an empty identifier stays empty, for it says that there is none."""
        if not identifier:
            return identifier
        data = identifier.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self._key, digest_size=16).hexdigest()


def hide_identities(body: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A JSON body with the identifiers of people, devices and accounts hashed.

    What is no JSON is searched all the same, and otherwise left as it is.
    """
    present = [key for key in _IDENTIFYING if _quoted(key) in body]
    if not present:
        return body
    top = _top_level(body)
    edits: list[tuple[int, int, bytes]] = []
    missed = False
    for key in present:
        found = list(_values_of(body, key))
        if top is not None:
            # The same key further down is somebody's data; it is hidden only where it is equal.
            found = [value for value in found if key in top and value[2] == top[key]]
            missed = missed or (key in top and not found)
        for start, end, value in found:
            hidden = _hide(key, value, pseudonyms.of)
            if hidden != value:
                edits.append((start, end, orjson.dumps(hidden)))
    if missed and top is not None:
        return orjson.dumps({key: _hide(key, value, pseudonyms.of) for key, value in top.items()})
    return _splice(body, edits)


def _quoted(key: str) -> bytes:
    return b'"' + key.encode() + b'"'


def _top_level(body: bytes) -> dict[str, Any] | None:
    """The parsed body, or None where that is too long, impossible, or no object."""
    if len(body) > PARSE_UP_TO:
        return None
    try:
        document = parse_json(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _values_of(body: bytes, key: str) -> Iterator[tuple[int, int, Any]]:
    """Each value of this key that is a string or an object: where it stands, and what it is."""
    quoted = _quoted(key)
    at = body.find(quoted)
    while at >= 0:
        colon = _AFTER_KEY.match(body, at + len(quoted))
        if colon is not None:
            start = colon.end()
            end = _end_of_value(body, start)
            if end is not None:
                with contextlib.suppress(ValueError):
                    yield start, end, parse_json(body[start:end])
        at = body.find(quoted, at + len(quoted))


def _end_of_value(body: bytes, start: int) -> int | None:
    stop = start + _LONGEST_VALUE
    opening = body[start : start + 1]
    if opening == b'"':
        string = _STRING.match(body, start, stop)
        return None if string is None else string.end()
    if opening != b"{":
        return None
    depth = 0
    for token in _STRING_OR_BRACE.finditer(body, start, stop):
        depth += {b"{": 1, b"}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.end()
    return None


def _hide(name: str, value: Any, of: Callable[[str], str]) -> Any:
    """A top-level value with its identifiers hashed; of other names than ours, as it is."""
    return _hide_value(name, value, of) if name in _IDENTIFYING else value


def _hide_value(name: str, value: Any, of: Callable[[str], str]) -> Any:
    match value:
        case None | bool():
            return value
        case dict():
            return {inner: _hide_value(inner, each, of) for inner, each in value.items()}
        case list():
            return [_hide_value(name, each, of) for each in value]
        case _ if name in _TELLS_CALLS_APART:
            return value
        case str():
            return _hide_text(value, of)
        case _:
            return of(str(value))


def _hide_text(text: str, of: Callable[[str], str]) -> str:
    """An identifier, or several in one string, of which a session's is kept."""
    if text.startswith("{"):
        try:
            inner = orjson.loads(text)
        except orjson.JSONDecodeError:
            return of(text)
        return orjson.dumps(_hide_value("", inner, of)).decode()
    parts = _CLAUDE_CODE_USER.fullmatch(text)
    if parts is not None:
        device, account, session = parts.groups()
        return f"user_{of(device)}_account_{of(account)}_session_{session}"
    return of(text)


def _splice(body: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for start, end, new in sorted(edits):
        if start < done:
            continue  # within a value that was just rewritten
        pieces += (body[done:start], new)
        done = end
    return b"".join((*pieces, body[done:]))
