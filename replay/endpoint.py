"""Where a replay sends its requests: one address in the forms that a server's paths need."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from agentx.replay.errors import ReplayError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server. Neither form ends in a slash, and neither holds credentials."""

    api: str
    """Where the API's paths begin, `/v1` included where the server has it."""
    root: str
    """Where the server's own paths (`/metrics`, `/version`, `/health`) begin."""

    @property
    def chat(self) -> str:
        """Address of chat completions."""
        return self.api + "/chat/completions"

    @property
    def models(self) -> str:
        """Address of the list of models."""
        return self.api + "/models"


def parse_url(url: str) -> Endpoint:
    """Read an address as a user gives it, with or without `/v1`.

    Raises:
        ReplayError: it is no http(s) address, or has parts that would be lost.
    """
    text = url.strip()
    try:
        parts = urlsplit(text)
        port = parts.port  # raises where it is no number
    except ValueError:
        raise ReplayError(f"{text} is no address: give http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ReplayError(f"{text} is no address: give http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.password is not None:
        raise ReplayError(
            f"the address of {parts.hostname} holds a user name: "
            "give the key in the environment variable OPENAI_API_KEY instead"
        )
    if parts.query or parts.fragment:
        raise ReplayError(f"{text} has a query: give the address without it")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    root = path.removesuffix("/v1")
    return Endpoint(
        api=urlunsplit((parts.scheme, netloc, root + "/v1", "", "")),
        root=urlunsplit((parts.scheme, netloc, root, "", "")),
    )


def without_v1(endpoint: Endpoint) -> Endpoint:
    """The same server, its API directly below the address that was given."""
    return Endpoint(api=endpoint.root, root=endpoint.root)
