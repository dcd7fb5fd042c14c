"""Reading what a run says about itself, trusting none of it.

run.json may come from anybody (a run is mailed, edited, written by a later version), so that every
value is taken for what it is or for unknown, and every text is bounded before it is shown.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

MAX_TEXT = 300
"""Characters of one text that a page shows."""

MAX_FACTS = 200
"""Lines of one nested object that a page shows."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that could reorder or hide what stands around them."""


def at(document: Any, *path: str) -> Any:
    """The value at a path of keys; None where the path does not lead anywhere."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def number(document: Any, *path: str) -> float | None:
    """The finite number at a path of keys; None for anything else."""
    value = at(document, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(document: Any, *path: str) -> int | None:
    """The whole number, 0 or more, at a path of keys; None for anything else."""
    value = number(document, *path)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def text(document: Any, *path: str) -> str | None:
    """The bounded, visible text at a path of keys; None if there is none or it is no text."""
    value = at(document, *path)
    return visible(value) if isinstance(value, str) and value.strip() else None


def visible(value: str, limit: int = MAX_TEXT) -> str:
    """A text of at most `limit` characters, on one line, without what does not show."""
    cut = value[: limit + 1]
    shown = "".join(
        " " if character in "\t\r\n" else "\N{REPLACEMENT CHARACTER}" if hidden else character
        for character in cut
        for hidden in (unicodedata.category(character) in _INVISIBLE,)
    )
    return shown[: limit - 1] + "…" if len(cut) > limit else shown


def flat(document: Any, limit: int = MAX_FACTS) -> list[tuple[str, str]]:
    """A nested object as lines of (dotted key, value as text), at most `limit` of them."""
    lines: list[tuple[str, str]] = []
    for key, value in _leaves(document, (), 0):
        if len(lines) == limit:
            lines.append(("…", "more in run.json"))
            break
        lines.append((visible(key), value))
    return lines


def _leaves(value: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value and depth < 6:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)), depth + 1)
        return
    if isinstance(value, list | tuple) and value and depth < 6:
        if all(not isinstance(inner, Mapping | list | tuple) for inner in value):
            yield ".".join(path), visible(", ".join(_leaf(inner) for inner in value[:100]))
            return
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(index)), depth + 1)
        return
    yield ".".join(path), _leaf(value)


def _leaf(value: Any) -> str:
    if value is None or value == {} or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value + 0.0:.6g}"  # + 0.0: no "-0"
    return visible(str(value))
