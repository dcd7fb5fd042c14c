"""Tails: the tokens after a context's last full block, as parts of named texts. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Part(NamedTuple):
    """A tail's tokens up to `end` (from the tail's beginning) come from the text of `name`."""

    name: int
    end: int


Tail: TypeAlias = tuple[Part, ...]
"""Ascending by `end`; the last end is the tail's length. A part's words are those that stand at
its place in the text of its name, so that equal parts at equal places are equal words."""


def head(tail: Tail, size: int) -> Tail:
    """The first `size` tokens; all of them where there are fewer."""
    parts: list[Part] = []
    start = 0
    for name, end in tail:
        if start >= size:
            break
        parts.append(Part(name, min(end, size)))
        start = end
    return tuple(parts)


def fill(tail: Tail, size: int, name: int) -> Tail:
    """The tail made `size` tokens long with text of `name`."""
    covered = tail[-1].end if tail else 0
    return (*tail, Part(name, size)) if covered < size else tail


def common(first: Tail, second: Tail) -> int:
    """How many leading tokens two tails share."""
    shared = 0
    left, right = iter(first), iter(second)
    one, two = next(left, None), next(right, None)
    while one and two and one.name == two.name:
        shared = min(one.end, two.end)
        if one.end == two.end:
            one, two = next(left, None), next(right, None)
        elif one.end == shared:
            one = next(left, None)
        else:
            two = next(right, None)
    return shared
