from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from agentx.cli.signals import ended_by_exception


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_as_an_error_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleaned: list[bool] = []
    with pytest.raises(SystemExit) as left, ended_by_exception(), ExitStack() as stack:
        stack.callback(cleaned.append, True)
        os.kill(os.getpid(), number)
    assert left.value.code == 128 + number
    assert cleaned
    assert signal.getsignal(number) is before
