"""How many cached tokens a server can have found at most, so that more of them is a fault. Pure.

More than was ever sent can be found only where the cache was warm before the run, the server is
shared, or its count is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentx.replay.counting import Counting

SLACK = 0.02
"""The probes' slope, and words that are longer or shorter than the mean one."""

TEMPLATE_TOKENS = 64
"""What a template puts before every prompt, where no probe measured it."""

_NEVER_ARRIVED = frozenset({"connect", "tls", "cancelled"})
"""Errors of requests that warmed no cache for a later one."""


def most_hits(row: Mapping[str, Any], counting: Counting | None, block_size: int) -> float | None:
    """Most cached tokens that an answer can report, in the server's tokens.

    What had been sent before (`theoretical_upper_tokens`), as the server counts it, and for a
    server with blocks finer than `block_size` as much as one of those more. None where the row
    does not tell what had been sent, or how long the server found the prompt.
    """
    seen: int | None = row["theoretical_upper_tokens"]
    prompt: int | None = row["prompt_tokens"]
    if seen is None or prompt is None:
        return None
    if counting is None:
        template: float = TEMPLATE_TOKENS
        context: int = row["context_tokens"]
        found = seen * max(1.0, prompt / max(context, 1))
    else:
        messages: int = row["kept_messages"] or (row["messages"] if seen else 0)
        template = counting.overhead + counting.per_message * (messages + 1)
        found = counting.slope * counting.words_per_token * seen
    return min(float(prompt), (found + template) * (1 + SLACK) + block_size)


def may_have_warmed(row: Mapping[str, Any]) -> bool:
    """Whether a request that does not count as taken may be in the server's cache all the same."""
    status, error = row["status"], row["error"]
    if error is None or error in _NEVER_ARRIVED:
        return False
    return status is None or int(status) >= 500
