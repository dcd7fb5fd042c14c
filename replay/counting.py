"""How a server counts a prompt's tokens, worked out from its counts of known texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SLOPE_TOLERANCE = 0.01
"""A word that is this close to one token counts as one."""

MIN_SLOPE, MAX_SLOPE = 0.1, 20.0
"""Tokens a word. A word of ours has three to eight letters: no vocabulary packs ten of them into a
token, none takes twenty tokens for one. Beyond, the counts are of something else."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How a server counts a prompt: words × slope + overhead + messages × per message."""

    slope: float
    """Tokens a word."""
    overhead: float
    """Tokens that the template adds to every prompt."""
    per_message: float
    """Tokens that it adds a message."""

    @property
    def plausible(self) -> bool:
        """Whether the counts can be of the words that were sent."""
        return MIN_SLOPE <= self.slope <= MAX_SLOPE

    @property
    def words_per_token(self) -> float:
        """Words to send for a token of the trace; 1 where the slope is 1 within 1 %."""
        return 1.0 if abs(self.slope - 1) <= SLOPE_TOLERANCE else 1 / self.slope


def fit(samples: Sequence[Mapping[str, int | None]]) -> Counting | None:
    """Least squares of prompt tokens over words and messages; None if a count is missing."""
    counts = [sample["prompt_tokens"] for sample in samples]
    if not counts or any(count is None for count in counts):
        return None
    terms = np.array([[sample["words"], sample["messages"], 1] for sample in samples], float)
    (slope, per_message, overhead), *_ = np.linalg.lstsq(terms, np.array(counts, float))
    return Counting(round(float(slope), 6), round(float(overhead), 3), round(float(per_message), 3))
