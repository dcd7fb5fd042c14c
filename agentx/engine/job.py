"""A request as the scheduler sees it: token counts, names of blocks, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agentx.engine.cache import Name
from agentx.engine.tally import FinishReason

State: TypeAlias = Literal["waiting", "running", "done", "cancelled"]


@dataclass(slots=True, eq=False)
class Job:
    """One request. Times are engine seconds. The first five fields say what is asked."""

    arrival: float
    prompt_tokens: int
    output_tokens: int
    """How many it will generate, known from the start; at least 1."""
    names: list[Name]
    """Names of the prompt's full blocks; grows while output fills more."""
    more_names: Iterator[Name] = field(default_factory=lambda: iter(()))
    """Names of the full blocks after the prompt's, drawn when they fill; none when exhausted."""
    finish_reason: FinishReason = "length"
    """What its end will be called."""

    state: State = "waiting"
    computed: int = 0
    """Tokens whose KV is in its blocks, those found in the cache included."""
    generated: int = 0
    blocks: list[int] = field(default_factory=list)
    published: int = 0
    """Blocks, from the start, that have been named or need no name."""
    nameable: bool = True
    """False once the cache was cleared under it: its blocks belong to no cached prefix."""
    cached_tokens: int | None = None
    """Prompt tokens found in the cache when it first got its blocks."""
    preemptions: int = 0
    started_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None

    @property
    def tokens(self) -> int:
        """Prompt and output so far. The last of them has no KV yet."""
        return self.prompt_tokens + self.generated
