"""Numbers as people read them. What is unknown is a dash, never 0."""

from __future__ import annotations

UNKNOWN = "–"


def whole(value: float | None) -> str:
    """A count: 1,234,567."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def counted(number: int, noun: str) -> str:
    """A count with its noun: 1 lane, 1,234 lanes."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(value: float | None) -> str:
    """A number to three significant digits: 0.123, 12.3, 1,230."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{digits}f}" if size >= 0.001 else f"{value:.1e}"


def duration(milliseconds: float | None) -> str:
    """A time: 1.23 ms, 456 ms, 7.89 s, 12.3 min."""
    if milliseconds is None:
        return UNKNOWN
    size = abs(milliseconds)
    if size < 1000:
        return f"{short(milliseconds)} ms"
    if size < 120_000:
        return f"{short(milliseconds / 1000)} s"
    if size < 7_200_000:
        return f"{short(milliseconds / 60_000)} min"
    return f"{short(milliseconds / 3_600_000)} h"


def percent(share: float | None) -> str:
    """A share: 96.4 %. Two decimals above 99 %, where the misses are what differs."""
    if share is None:
        return UNKNOWN
    digits = 2 if 0.99 <= abs(share) < 1 else 1
    return f"{share * 100:.{digits}f} %"


def tokens(value: float | None) -> str:
    """A count of tokens: 950, 12.3 k, 4.56 M."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{short(value / size)} {unit}"
    return f"{value:,.0f}"


def per_second(value: float | None) -> str:
    """A rate without its noun: 12.3 /s."""
    return UNKNOWN if value is None else f"{short(value)} /s"


def megabytes(value: float | None) -> str:
    """Memory: 123 MB."""
    return UNKNOWN if value is None else f"{short(value)} MB"


def yes_no(value: object) -> str:
    """A flag; what is neither true nor false is unknown."""
    return "yes" if value is True else "no" if value is False else "unknown"
