"""What a signal does to a run: nothing more is sent, what is in flight gets a few seconds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

GRACE_S = 5.0
"""How long what is in flight may still take once a run is stopped."""


class Stoppable(Protocol):
    """A load under way."""

    def stop(self) -> None:
        """Send nothing more."""

    def abandon(self) -> None:
        """End what is in flight."""


@asynccontextmanager
async def stopped_by_signals(
    load: Stoppable, say: Callable[[str], None]
) -> AsyncIterator[list[signal.Signals]]:
    """Stop a load at SIGINT or SIGTERM; after a grace period, or at a second signal, abandon it.

    Gives the list of the signals received, which grows.
    """
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def receive(number: signal.Signals) -> None:
        received.append(number)
        if len(received) > 1:
            load.abandon()
        else:
            load.stop()
            say(f"Stopping: what is in flight has {GRACE_S:g} s more; once again ends it at once.")
            loop.call_later(GRACE_S, load.abandon)

    numbers = (signal.SIGINT, signal.SIGTERM)
    with _restored(numbers):
        for number in numbers:
            loop.add_signal_handler(number, receive, number)
        try:
            yield received
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


@contextmanager
def _restored(numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Put signal handlers back as they were."""
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:
                signal.signal(number, handler)
