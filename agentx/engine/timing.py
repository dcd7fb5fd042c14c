"""How long a step of the engine lasts: a formula with five parameters.

    step = step_s
         + Σ over prefill chunks of n tokens that follow c tokens of context:
               n × prefill_token_s + n × (c + n ÷ 2) × prefill_attention_s
         + decoding sequences × decode_sequence_s
         + Σ over decoding sequences of their context in tokens × kv_read_s

The formula is linear in its parameters, so that they can be fitted to measured runs. The defaults
are assumed, of the order of a large model on one node of accelerators; they are nobody's
measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from agentx.engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class Timing:
    """Parameters of a step's duration, all in seconds and none negative."""

    step_s: float = 0.008
    """Of every step: reading the weights, launching, sampling."""
    prefill_token_s: float = 40e-6
    """Of every prompt token computed."""
    prefill_attention_s: float = 4e-10
    """Of every prompt token computed, for each token before it."""
    decode_sequence_s: float = 50e-6
    """Of every sequence that gets its next token."""
    kv_read_s: float = 5e-9
    """Of every token of context that a decoding sequence reads."""

    def __post_init__(self) -> None:
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            if not 0 <= value < math.inf:
                raise EngineError(f"{parameter.name} is {value}; give seconds, 0 or more")

    def step(self, prefill: Iterable[tuple[int, int]], decoding: int, context: int) -> float:
        """Seconds of a step.

        `prefill`: (tokens, context before them) of each chunk; `decoding`: sequences that get
        their next token; `context`: the sum of their contexts in tokens.
        """
        seconds = self.step_s + decoding * self.decode_sequence_s + context * self.kv_read_s
        for tokens, before in prefill:
            seconds += tokens * (
                self.prefill_token_s + (before + tokens / 2) * self.prefill_attention_s
            )
        return seconds
