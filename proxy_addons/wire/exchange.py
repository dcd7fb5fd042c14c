"""One HTTP exchange as it was on the wire, credentials already gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Ended: TypeAlias = Literal["complete", "client_gone", "upstream_error", "proxy_stopped"]
"""How an exchange ended; one that has no close frame ended with the proxy."""

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, in the order sent, credentials left out."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Response bytes and when they came from the upstream."""

    at_ms: float
    """From the exchange's opening."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, what came back, and how it ended.

    From a spool of ours bodies come decoded, without a content-encoding header; a source that keeps
    them as on the wire keeps the header too, and whoever reads them decodes.
    """

    exchange_id: str
    upstream: str
    """The name that the upstream was given on the command line."""
    method: str
    path: str
    """With its query string, credentials left out of it."""
    request_headers: Headers
    request_body: bytes
    opened_ms: float
    """Wall clock, milliseconds since 1970."""
    status: int | None
    """None where no answer came."""
    response_headers: Headers
    chunks: tuple[Chunk, ...]
    ended: Ended
    end_ms: float | None
    """From the opening; None where the end was not seen."""


def header(headers: Headers, name: str) -> str | None:
    """The first value of a header, by its lower-case name."""
    return next((value for key, value in headers if key == name), None)
