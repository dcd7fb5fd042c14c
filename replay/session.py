"""When each request of a session is due: a state machine that is told what was sent and ended.

Pure: time is passed in, as seconds of whatever clock the caller has. The caller sends what is due,
tells `sent` and `ended`, and gets what became due by that. A request that failed has ended too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentx.replay.errors import ReplayError
from agentx.replay.plan import PlannedRequest, SessionPlan


@dataclass(frozen=True, slots=True)
class Think:
    """How much of the recorded think time is kept."""

    cap_s: float | None = None
    """At most so many seconds of recorded time; None: as recorded; 0: none."""
    speed: float = 1.0
    """Recorded time is divided by this (an engine whose clock runs faster)."""

    @classmethod
    def parse(cls, text: str, speed: float = 1.0) -> Think:
        """Read `recorded`, `none` or a cap in seconds. Raises ReplayError for anything else."""
        if text == "recorded":
            return cls(None, speed)
        if text == "none":
            return cls(0.0, speed)
        try:
            cap = float(text)
        except ValueError:
            cap = -1.0
        if not 0 <= cap < math.inf:
            raise ReplayError(
                f"think time is 'recorded', 'none' or seconds to cap it, not {text!r}"
            )
        return cls(cap, speed)

    def due(self, request: PlannedRequest, ended: float, gap_start: float) -> float:
        """When a request is due whose dependencies ended at `ended` (latest).

        Where the think time is unknown, the recorded gap between two sends is kept instead,
        counted from the actual send `gap_start`, but never to before `ended`.
        """
        if request.think_ms is not None:
            wait = max(0, request.think_ms) / 1000 / self.speed
        elif request.gap_ms is not None:
            wait = max(0.0, gap_start + request.gap_ms / 1000 / self.speed - ended)
        else:
            wait = 0.0
        if self.cap_s is not None:
            wait = min(wait, self.cap_s / self.speed)
        return ended + wait


@dataclass(frozen=True, slots=True)
class Due:
    """A request and when to send it, in the caller's seconds."""

    request: PlannedRequest
    at: float


class SessionMachine:
    """One session under way. Each kept request becomes due exactly once."""

    def __init__(self, plan: SessionPlan, think: Think) -> None:
        self._think = think
        self._requests = {request.index: request for request in plan.requests}
        self._missing = {request.index: len(request.after) for request in plan.requests}
        self._waiting: dict[int, list[int]] = {}
        """By request: those that wait for its end."""
        for request in plan.requests:
            for other in request.after:
                self._waiting.setdefault(other, []).append(request.index)
        self._started = 0.0
        self._sent: dict[int, float] = {}
        self._ended: dict[int, float] = {}

    @property
    def done(self) -> bool:
        """Whether every request has ended."""
        return len(self._ended) == len(self._requests)

    def start(self, now: float) -> list[Due]:
        """Begin; returns what waits for nothing."""
        self._started = now
        return [self._due(index) for index, missing in self._missing.items() if not missing]

    def sent(self, index: int, now: float) -> None:
        """Take note that a request was sent."""
        self._sent[index] = now

    def ended(self, index: int, now: float) -> list[Due]:
        """Take note that a request ended, well or badly; returns what became due by that."""
        assert index not in self._ended, f"request {index} ended twice"
        self._ended[index] = now
        self._sent.setdefault(index, now)
        ready = []
        for child in self._waiting.pop(index, ()):
            self._missing[child] -= 1
            if not self._missing[child]:
                ready.append(self._due(child))
        return ready

    def _due(self, index: int) -> Due:
        request = self._requests[index]
        ended = max((self._ended[other] for other in request.after), default=self._started)
        before = request.gap_from
        gap_start = self._started if before is None else self._sent[before]
        return Due(request, self._think.due(request, ended, gap_start))
