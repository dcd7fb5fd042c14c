"""What keeps the simulated engine from starting."""

from __future__ import annotations


class EngineError(ValueError):
    """One sentence that says what, where, and what to do."""
