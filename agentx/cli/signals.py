"""What a signal does to a command that writes something."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Besides SIGINT, which Python raises as an exception by itself."""


@contextmanager
def ended_by_exception() -> Iterator[None]:
    """Have a signal leave as an error does, so that what was written so far is removed."""
    with ExitStack() as stack:
        for number in _ENDING:
            stack.callback(signal.signal, number, signal.signal(number, _leave))
        yield


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
