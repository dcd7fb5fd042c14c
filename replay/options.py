"""What a user asks of a replay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options, by name."""

    url: str | None = None
    """None: the embedded engine."""
    model: str | None = None
    sessions: int = 1
    max_requests: int | None = None
    think: str = "recorded"
    max_context: int | None = None
    kv_tokens: int | None = None
    engine_speed: float | None = None
    seed: int = 0
    preflight: bool = True
    timeout_s: float = 600.0
