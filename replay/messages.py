"""A request's messages as serialised pieces that requests share. Pure.

A message is one or more pieces: bytes of JSON that begin with what closes the message before it.
So the pieces of a request, joined, are the array of its messages but for the end (`CLOSE`), and a
child's are its parent's and a few more.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

Role: TypeAlias = Literal["system", "user", "assistant"]

CLOSE = b'"}]'
"""What ends the array after the last piece."""


class Piece(NamedTuple):
    """Some words of a message, serialised."""

    text: bytes
    role: Role
    opens: bool
    """Whether a message begins here; else it goes on."""
    end: int
    """Words of the request up to here."""


Messages: TypeAlias = tuple[Piece, ...]
"""In order; roles alternate but for pieces that go on."""


def add(messages: Messages, role: Role, text: bytes, words: int) -> Messages:
    """The messages and `words` more words of `role`, in its last message if that is of the role.

    Every word of `text` has a space before it. The first of a message loses it: templates trim
    messages, and the words are one token with and without.
    """
    before = messages[-1] if messages else None
    end = words + (before.end if before else 0)
    if before and before.role == role:
        return (*messages, Piece(text, role, False, end))
    head = b'"},{' if before else b"[{"
    opening = b'%b"role":"%b","content":"' % (head, role.encode())
    return (*messages, Piece(opening + text[1:], role, True, end))


def cut(messages: Messages, words: int) -> Messages:
    """The first `words` words; the message in which they end keeps its role."""
    at = bisect_left(messages, words, key=lambda piece: piece.end)
    if not words:
        return ()
    piece = messages[at]
    if piece.end == words:
        return messages[: at + 1]
    start = messages[at - 1].end if at else 0
    # Word k begins after its k-th space, but the first of a message has none.
    space = words - start - (1 if piece.opens else 0)
    spaces = np.flatnonzero(np.frombuffer(piece.text, dtype=np.uint8) == ord(" "))
    kept = Piece(piece.text[: int(spaces[space])], piece.role, piece.opens, words)
    return (*messages[:at], kept)


def end_with_user(messages: Messages) -> Messages:
    """The same words with a user's message last: where there is none, it takes the last word.

    Many templates refuse anything else. Only a context that is part of an earlier one, or of its
    own system prompt, can end otherwise.
    """
    if messages[-1].role == "user":
        return messages
    last = re.search(rb"[a-z]+\Z", messages[-1].text)
    assert last is not None
    return add(cut(messages, messages[-1].end - 1), "user", b" " + last.group(), 1)


def count(messages: Messages) -> int:
    """How many messages there are."""
    return sum(piece.opens for piece in messages)


def shared(messages: Messages, others: Messages) -> int:
    """How many leading messages two requests have in the same pieces."""
    same = 0
    for one, other in zip(messages, others, strict=False):
        if one is not other:
            break
        same += 1
    # A message that goes on in either is not the same in both.
    goes_on = any(len(m) > same and not m[same].opens for m in (messages, others))
    return count(messages[:same]) - goes_on
