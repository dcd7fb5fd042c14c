"""Whose request it is: the ids that agents themselves put on the wire.

The headers are rows of `providers.ID_HEADERS`. What an id looks like does not matter, so that ids
which the recorder replaced by keyed hashes serve as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentx.proxy_addons.providers import ID_HEADERS
from agentx.proxy_addons.wire.content import ModelRequest
from agentx.proxy_addons.wire.exchange import Headers

_MAX_ID = 256


@dataclass(frozen=True, slots=True)
class Identity:
    """What a request says of its place. All None: it says nothing."""

    session: str | None = None
    agent: str | None = None
    """None: the session's main agent, as far as is told."""
    parent_session: str | None = None
    """The session whose agent started this one, where a subagent has a session of its own."""


def identify(headers: Headers, request: ModelRequest) -> Identity:
    """The ids of a request: its headers', else its body's."""
    values = {name: value for name, value in headers if 0 < len(value) <= _MAX_ID}
    for row in ID_HEADERS:
        session = values.get(row.session)
        if session is not None:
            return Identity(
                session,
                values.get(row.agent) if row.agent else None,
                values.get(row.parent_session) if row.parent_session else None,
            )
    session = request.body_session
    return Identity(session if session and len(session) <= _MAX_ID else None)
