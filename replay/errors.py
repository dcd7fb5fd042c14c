"""What keeps a replay from starting or going on."""

from __future__ import annotations


class ReplayError(ValueError):
    """One sentence that says what, where, and what to do."""
