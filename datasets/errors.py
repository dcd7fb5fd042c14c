"""What can be wrong with a trace, a spool or a data set."""

from __future__ import annotations


class DatasetError(ValueError):
    """Input that cannot be used: one sentence that says what, where, and what to do."""
