"""Credentials out of a request and its response, before anything of them is queued. Pure.

Headers, query values and parts of a path are kept only where a list says so, for nobody can list
all that may hold a credential. Those that are credentials by name and by looks (`secrecy`) are also
looked for in what is kept, bodies included, and masked there byte for byte, so that lengths and
chunk borders stay.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from urllib.parse import unquote

import orjson

from agentx.proxy_addons.providers import BEFORE_MODEL, PATH_WORDS, QUERY_PARAMETERS
from agentx.proxy_addons.secrecy import is_secret, may_be_model
from agentx.proxy_addons.wire.exchange import Chunk, Headers

_CREDENTIAL = re.compile(
    r"auth|token|secret|passw|cookie|credential|jwt|signature|(^|[-_])(key|sig|code)$|api-?_?key",
    re.IGNORECASE,
)
"""Names of headers and query parameters that hold a credential."""

_VERSION = re.compile(r"v[0-9]{1,3}((alpha|beta)[0-9]{0,3})?")
"""`v1`, `v1beta1`: a part of a path that is kept."""

_REDACTED = "redacted"
_MASK = b"*"

Secrets = tuple[bytes, ...]
"""Credentials of one exchange, longest first, in each spelling that a body may hold."""


def secrets_of(headers: Headers, path: str) -> Secrets:
    """The credentials that a request carries in its headers, its path and its query string."""
    found: set[str] = set()
    for name, value in headers:
        if _CREDENTIAL.search(name):
            found.update(filter(is_secret, _header_secrets(name, value)))
    for name, parameter in _parameters(path):
        found.update(filter(is_secret, (name, unquote(name))))
        if parameter is not None and _CREDENTIAL.search(name):
            found.update(filter(is_secret, (parameter, unquote(parameter))))
    for before, part in pairwise(["", *_path_parts(path)]):
        if not _is_harmless(part) and not (before in BEFORE_MODEL and may_be_model(part)):
            found.update(filter(is_secret, (part, unquote(part))))
    spellings: set[bytes] = set()
    for secret in found:
        raw = secret.encode("latin-1", "replace")
        spellings.update((raw, orjson.dumps(secret)[1:-1]))
    return tuple(sorted(spellings, key=lambda spelling: (-len(spelling), spelling)))


def kept_headers(headers: Headers, allowed: Collection[str], secrets: Secrets) -> Headers:
    """The headers whose lower-case name is allowed, credentials masked in their values."""
    return tuple(
        (name.lower(), _mask_text(value, secrets))
        for name, value in headers
        if name.lower() in allowed
    )


def clean_path(path: str, secrets: Secrets) -> str:
    """A path and its query, of which only what is known to be harmless is kept.

    Whether a call is one of a model can be told from it as from the whole path.
    """
    parts = (part if _is_harmless(part) else _REDACTED for part in _path_parts(path))
    kept = []
    for name, value in _parameters(path):
        if value is None or is_secret(name):
            kept.append(_REDACTED)
        else:
            kept.append(f"{name}={value if name in QUERY_PARAMETERS else _REDACTED}")
    question = "?" if "?" in path else ""
    return "/".join(parts) + _mask_text(question + "&".join(kept), secrets)


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
    if "cookie" in name.lower():
        yield value
        for pair in value.split(";"):
            yield pair.partition("=")[2].strip()
        return
    scheme, _, token = value.partition(" ")
    token = token.strip()
    # `Bearer dummy` is no more of a secret than `dummy` is.
    if not token or is_secret(token):
        yield value
    yield token
    if scheme.lower() == "basic":
        try:
            user_and_password = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield user_and_password
        yield user_and_password.partition(":")[2]


def _path_parts(path: str) -> list[str]:
    return path.partition("?")[0].split("/")


def _is_harmless(part: str) -> bool:
    return not part or part in PATH_WORDS or _VERSION.fullmatch(part) is not None


def _parameters(path: str) -> Iterator[tuple[str, str | None]]:
    query = path.partition("?")[2]
    for parameter in query.split("&") if query else ():
        name, equals, value = parameter.partition("=")
        yield name, value if equals else None


def _mask_text(text: str, secrets: Secrets) -> str:
    return mask(text.encode("latin-1", "replace"), secrets).decode("latin-1")
