"""Errors of every floor as one sentence and an exit status."""

from __future__ import annotations

import errno
import os

import click

WRONG_USE = 2

LONGEST = 1000
"""Characters of a sentence; of a longer one the middle is left out."""


class CommandError(click.ClickException):
    """A sentence that says what is wrong, where, and what to do; exit status 2."""

    exit_code = WRONG_USE


def sentence_and_status(error: Exception) -> tuple[str, int] | None:
    """What to print for an error and which status to leave with; None for one that is a bug."""
    from agentx.datasets.errors import DatasetError
    from agentx.engine.errors import EngineError
    from agentx.proxy_addons.errors import CaptureError
    from agentx.replay.errors import ReplayError

    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "agentx"
        return f"{_sentence(error.format_message())} See '{where} --help'.", WRONG_USE
    if isinstance(error, click.ClickException):
        return _sentence(error.format_message()), error.exit_code
    if isinstance(error, DatasetError | EngineError | CaptureError | ReplayError):
        return _sentence(str(error)), WRONG_USE
    if isinstance(error, OSError):
        return _sentence(_os_error(error)), WRONG_USE
    return None


def _os_error(error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = f"{error.filename}: " if error.filename else ""
    advice = {
        errno.ENOSPC: "; free some space and run it again",
        errno.EACCES: "; check the permissions",
        errno.EADDRINUSE: "; choose another port, or 0 for a free one",
    }.get(error.errno or 0, "")
    return f"{where}{reason}{advice}"


def _sentence(text: str) -> str:
    # Names and reasons may come from files of others: nothing that a terminal would obey.
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    return text if text.endswith((".", "!", "?")) else text + "."
