"""What capture knows of providers and agents, as data: paths, headers, safe query parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API and where its calls go, whatever prefix a provider puts before the path."""

    name: str
    path_ends: tuple[str, ...]


DIALECTS = (
    Dialect("anthropic", ("/v1/messages", "/v1/messages/count_tokens")),
    Dialect("chat", ("/chat/completions",)),
)
"""Calls of a model. The bodies of any other path are not kept: it may well be a login."""


@dataclass(frozen=True, slots=True)
class IdHeaders:
    """The headers in which one agent says whose request it is, by their lower-case names."""

    session: str
    agent: str | None = None
    """None: the agent names no subagents this way."""
    parent_session: str | None = None
    """For agents whose subagents have sessions of their own."""


ID_HEADERS = (
    IdHeaders("x-claude-code-session-id", agent="x-claude-code-agent-id"),  # Claude Code
    IdHeaders("x-session-id", parent_session="x-parent-session-id"),  # OpenCode
)
"""One row an agent; a new agent is a new row."""

AGENT_ID_HEADERS = frozenset(
    name
    for row in ID_HEADERS
    for name in (row.session, row.agent, row.parent_session)
    if name is not None
)

REQUEST_HEADERS = AGENT_ID_HEADERS | {
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-encoding",
    "content-length",
    "content-type",
    "openai-beta",
    "user-agent",
    "x-app",
    "x-client-request-id",
    "x-request-id",
    "x-session-affinity",
    "x-stainless-retry-count",
    "x-stainless-timeout",
}
"""Request headers that are kept; every other one is dropped, known or not."""

RESPONSE_HEADERS = frozenset(
    {
        "content-encoding",
        "content-length",
        "content-type",
        "openai-processing-ms",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "transfer-encoding",
        "x-request-id",
        "x-should-retry",
    }
)
"""Response headers that are kept."""

QUERY_PARAMETERS = frozenset({"alt", "api-version", "beta", "stream"})
"""Query parameters whose values are kept."""


def dialect_of(method: str, path: str) -> str | None:
    """The dialect of a call of a model, None for anything else. `path` may have a query."""
    if method != "POST":
        return None
    bare = path.partition("?")[0].rstrip("/")
    for dialect in DIALECTS:
        if bare.endswith(dialect.path_ends):
            return dialect.name
    return None
