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

PATH_WORDS = frozenset(
    (
        # APIs and their endpoints.
        *("api", "apis", "batch", "batches", "chat", "completions", "compatible-mode"),
        *("count_tokens", "deployments", "embeddings", "engines", "files", "images", "messages"),
        *("model", "models", "paas", "rerank", "responses", "tokenize"),
        # What agents ask for besides.
        *("backend-api", "claude_code", "codex", "event_logging", "events", "health", "healthz"),
        *("hello", "login", "metrics", "oauth", "organizations", "policy_limits", "projects"),
        *("props", "settings", "token", "usage", "version"),
        # Providers and gateways, as prefixes before an API's own path.
        *("ai", "anthropic", "azure", "bedrock", "claude", "cohere", "dashscope", "deepseek"),
        *("fireworks", "gateway", "gemini", "google", "groq", "gw", "inference", "litellm", "llm"),
        *("mistral", "moonshot", "ollama", "openai", "openrouter", "proxy", "serverless"),
        *("together", "vertex", "vllm", "xai", "zai"),
    )
)
"""Parts of a path that are kept, as `v1` and the like are. Any other may be a key or a name."""

BEFORE_MODEL = frozenset(("deployments", "engines", "model", "models"))
"""What stands in a path before a model's name."""

PROTOCOL_WORDS = (
    "accepted_prediction_tokens",
    "additionalProperties",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "chat.completion.chunk",
    "completion_tokens_details",
    "disable_parallel_tool_use",
    "ephemeral_1h_input_tokens",
    "ephemeral_5m_input_tokens",
    "max_completion_tokens",
    "prompt_tokens_details",
    "rejected_prediction_tokens",
    "web_search_tool_result",
    "x-anthropic-billing-header",
)
"""Long words of the bodies' own structure; none of them, and no piece of one, is ever masked."""


def dialect_of(method: str, path: str) -> str | None:
    """The dialect of a call of a model, None for anything else. `path` may have a query."""
    if method != "POST":
        return None
    bare = path.partition("?")[0].rstrip("/")
    for dialect in DIALECTS:
        if bare.endswith(dialect.path_ends):
            return dialect.name
    return None
