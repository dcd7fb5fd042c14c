from __future__ import annotations

import os
import signal

import pytest

from agentx.cli.signals import ended_by_exception


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_as_an_error_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleaned = False
    with pytest.raises(SystemExit) as left, ended_by_exception():
        try:
            os.kill(os.getpid(), number)
        finally:
            cleaned = True
    assert left.value.code == 128 + number
    assert cleaned
    assert signal.getsignal(number) is before
