"""What was captured, and what was not and why."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Counters:
    """Every exchange is counted once when it begins, and once when its record is settled:
    complete, partial or lost. Shared by the proxy's thread and the writer's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._partial: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        # Of the proxy's thread alone, and changed with every chunk: not worth a lock.
        self._request_bytes = 0
        self._response_bytes = 0

    def began(self) -> None:
        """A request came in."""
        self._add(self._counts, "requests")

    def sent(self, size: int) -> None:
        """Bytes of a request's body went by. In the proxy's thread."""
        self._request_bytes += size

    def received(self, size: int) -> None:
        """Bytes of a response's body went by. In the proxy's thread."""
        self._response_bytes += size

    def complete(self) -> None:
        """A whole exchange was recorded."""
        self._add(self._counts, "complete")

    def partial(self, reason: str) -> None:
        """A record holds only the beginning of its exchange, or the exchange broke off."""
        self._add(self._partial, reason)

    def lost(self, reason: str) -> None:
        """Nothing of an exchange was recorded."""
        self._add(self._lost, reason)

    def fault(self) -> None:
        """Something in our own code raised; traffic went on."""
        self._add(self._counts, "faults")

    def snapshot(self) -> dict[str, Any]:
        """The counts now; `in_flight` are the exchanges not settled yet."""
        with self._lock:
            counts, partial, lost = self._counts.copy(), dict(self._partial), dict(self._lost)
        settled = counts["complete"] + sum(partial.values()) + sum(lost.values())
        return {
            "requests": counts["requests"],
            "in_flight": counts["requests"] - settled,
            "complete": counts["complete"],
            "partial": partial,
            "lost": lost,
            "faults": counts["faults"],
            "request_bytes": self._request_bytes,
            "response_bytes": self._response_bytes,
        }

    def _add(self, counter: Counter[str], name: str) -> None:
        with self._lock:
            counter[name] += 1


def summary(counts: dict[str, Any]) -> str:
    """One line for people."""
    line = f"{counts['requests']} requests, {counts['complete']} complete"
    if counts["in_flight"]:
        line += f", {counts['in_flight']} in flight"
    for name in ("partial", "lost"):
        if counts[name]:
            reasons = ", ".join(f"{count} {reason}" for reason, count in counts[name].items())
            line += f", {sum(counts[name].values())} {name} ({reasons.replace('_', ' ')})"
    if counts["faults"]:
        line += f", {counts['faults']} faults in agentx"
    megabytes = (counts["request_bytes"] + counts["response_bytes"]) / 1e6
    return f"{line}; {megabytes:.1f} MB"
