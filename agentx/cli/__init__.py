"""The command line: one module a command, imported when it is called.

A command's own module imports what it needs inside its function, so that `agentx --help` and a
load generator's first request do not wait for what they do not use.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from agentx import __version__
from agentx.cli.errors import sentence_and_status

COMMANDS: dict[str, str] = {
    "build": "agentx.cli.build:build",
    "capture": "agentx.cli.capture:capture",
    "stats": "agentx.cli.stats:stats",
    "engine": "agentx.cli.engine:engine",
    "import": "agentx.cli.import_:import_group",
    "replay": "agentx.cli.replay:replay",
    "report": "agentx.cli.report:report",
    "demo": "agentx.cli.demo:demo",
}
"""Command name to `module:attribute`."""


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: D102
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentx")
def cli() -> None:
    """Measure how a serving stack keeps and finds the prefixes that coding agents send.

    \b
    agentx demo                                  the whole path, in a minute
    agentx import weka TRACES -o DATASET         traces to a data set
    agentx replay DATASET --url URL --model M    a data set against an endpoint
    agentx report RUN -o FILE.html               a run as a page
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 done, 1 checked and failed, 2 wrong use.

    Every error that bad input can cause leaves as one sentence on stderr; a traceback is a bug.
    """
    try:
        status = cli.main(args=list(arguments), prog_name="agentx", standalone_mode=False)
    except BrokenPipeError:
        # Whoever read our output has gone (`agentx stats | head`); nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        click.echo("agentx: interrupted.", err=True)
        return 130
    except Exception as error:
        known = sentence_and_status(error)
        if known is None:
            raise
        sentence, code = known
        click.echo(f"agentx: {sentence}", err=True)
        return code
    return status if isinstance(status, int) else 0
