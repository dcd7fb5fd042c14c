"""Credentials out of a request and its response, before anything of them is queued. Pure.

Headers and query values are kept only where a list says so, for nobody can list all that may hold
a credential. Those that surely are credentials are also looked for in what is kept, bodies
included, and masked there byte for byte, so that lengths and chunk borders stay.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import unquote

import orjson

from agentx.proxy_addons.providers import QUERY_PARAMETERS
from agentx.proxy_addons.wire.exchange import Chunk, Headers

MIN_SECRET = 8
"""Bytes. Shorter ones (a key `x` for a local server) open no door, and would mask common words."""

_CREDENTIAL = re.compile(
    r"auth|token|secret|passw|cookie|credential|jwt|signature|(^|[-_])(key|sig|code)$|api-?_?key",
    re.IGNORECASE,
)
"""Names of headers and query parameters that hold a credential."""

_ID_IN_PATH = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}|[0-9]{10,}",
    re.IGNORECASE,
)
"""Of an account, an organisation, a file; a model's date is shorter."""

_REDACTED = "redacted"
_MASK = b"*"

Secrets = tuple[bytes, ...]
"""Credentials of one exchange, longest first, in each spelling that a body may hold."""


def secrets_of(headers: Headers, path: str) -> Secrets:
    """The credentials that a request carries in its headers and its query string."""
    found: set[str] = set()
    for name, value in headers:
        if _CREDENTIAL.search(name):
            found.update(_header_secrets(name, value))
    for name, parameter in _parameters(path):
        if parameter is not None and _CREDENTIAL.search(name):
            found.update((parameter, unquote(parameter)))
    spellings: set[bytes] = set()
    for secret in found:
        raw = secret.encode("latin-1", "replace")
        spellings.update((raw, orjson.dumps(secret)[1:-1]))
    long_enough = (spelling for spelling in spellings if len(spelling) >= MIN_SECRET)
    return tuple(sorted(long_enough, key=lambda spelling: (-len(spelling), spelling)))


def kept_headers(headers: Headers, allowed: Collection[str], secrets: Secrets) -> Headers:
    """The headers whose lower-case name is allowed, credentials masked in their values."""
    return tuple(
        (name.lower(), _mask_text(value, secrets))
        for name, value in headers
        if name.lower() in allowed
    )


def clean_path(path: str, secrets: Secrets) -> str:
    """A path without ids and credentials, and of its query only the values known to be harmless."""
    bare, question, _ = path.partition("?")
    bare = _ID_IN_PATH.sub(_REDACTED, _mask_text(bare, secrets))
    kept = []
    for name, value in _parameters(path):
        if value is None:
            kept.append(_REDACTED)
        else:
            kept.append(f"{name}={value if name in QUERY_PARAMETERS else _REDACTED}")
    return _mask_text(bare + question + "&".join(kept), secrets)


def mask(data: bytes, secrets: Secrets) -> bytes:
    """The bytes with each credential overwritten, of the same length."""
    for secret in secrets:
        if secret in data:
            data = data.replace(secret, _MASK * len(secret))
    return data


class StreamMask:
    """`mask` over a stream of chunks, also where a credential is split between two of them.

    Bytes that may be the beginning of a credential are held until the next chunks tell.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held: list[Chunk] = []

    def feed(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """What is now sure: the same bytes at the same times, credentials masked."""
        if not self._secrets:
            return list(chunks)
        chunks = [*self._held, *chunks]
        plain = b"".join(chunk.data for chunk in chunks)
        joined = mask(plain, self._secrets)
        sure = len(joined) - self._unsure(joined)
        if joined is plain and sure == len(plain):
            self._held = []
            return chunks
        done: list[Chunk] = []
        self._held = []
        start = 0
        for chunk in chunks:
            end = start + len(chunk.data)
            now, later = joined[start : min(end, sure)], joined[max(start, sure) : end]
            if now or not (later or self._held):
                done.append(Chunk(chunk.at_ms, now))
            if later or (self._held and not now):
                self._held.append(Chunk(chunk.at_ms, later))
            start = end
        return done

    def flush(self) -> list[Chunk]:
        """What was still held, at the stream's end."""
        held, self._held = self._held, []
        return held

    def _unsure(self, data: bytes) -> int:
        """How many bytes at the end may begin a credential."""
        longest = min(len(data), len(self._secrets[0]) - 1)
        for length in range(longest, 0, -1):
            tail = data[-length:]
            if any(secret.startswith(tail) for secret in self._secrets):
                return length
        return 0


def _header_secrets(name: str, value: str) -> Iterator[str]:
    value = value.strip()
    yield value
    if "cookie" in name.lower():
        for pair in value.split(";"):
            yield pair.partition("=")[2].strip()
        return
    scheme, _, token = value.partition(" ")
    token = token.strip()
    yield token
    if scheme.lower() == "basic":
        try:
            user_and_password = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield user_and_password
        yield user_and_password.partition(":")[2]


def _parameters(path: str) -> Iterator[tuple[str, str | None]]:
    query = path.partition("?")[2]
    for parameter in query.split("&") if query else ():
        name, equals, value = parameter.partition("=")
        yield name, value if equals else None


def _mask_text(text: str, secrets: Secrets) -> str:
    return mask(text.encode("latin-1", "replace"), secrets).decode("latin-1")
