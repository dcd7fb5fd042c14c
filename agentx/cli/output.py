"""What commands print: one JSON document for machines, tables for people, progress on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import orjson
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout; a float that is no number becomes null."""
    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))


def log(line: str) -> None:
    """Say something to a person, on stderr."""
    click.echo(line, err=True)


def progress() -> Progress:
    """A progress bar on stderr, shown only where stderr is a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
