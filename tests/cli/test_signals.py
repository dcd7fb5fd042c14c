from __future__ import annotations

import os
import signal

import pytest

from agentx.cli.signals import ended_by_exception


def interrupted(number: signal.Signals, cleaned: list[bool]) -> None:
    with ended_by_exception():
        try:
            os.kill(os.getpid(), number)
        finally:
            cleaned.append(True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_as_an_error_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleaned: list[bool] = []
    with pytest.raises(SystemExit) as left:
        interrupted(number, cleaned)
    assert left.value.code == 128 + number
    assert cleaned
    assert signal.getsignal(number) is before
