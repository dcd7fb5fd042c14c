"""What keeps a capture from starting, or a spool from being read."""

from __future__ import annotations


class CaptureError(ValueError):
    """One sentence that says what, where, and what to do."""
