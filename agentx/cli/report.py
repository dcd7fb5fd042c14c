"""`agentx report`: runs as one page."""

from __future__ import annotations

from pathlib import Path

import click

from agentx.cli.errors import CommandError
from agentx.cli.output import json_option


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="FILE.html",
    type=click.Path(path_type=Path),
    help="The page to write; an earlier page of ours there is replaced.",
)
@json_option
def report(runs: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Lay out one or more runs as a self-contained HTML page: open it, mail it.

    The page has its charts, its style and its script inside and fetches nothing. With several
    runs it begins with a table that compares them. A run that was stopped or killed gives a page
    too, over the requests that had ended.

    \b
    agentx report runs/first -o first.html
    agentx report runs/small-cache runs/large-cache -o caches.html
    """
    from agentx.cli.output import print_json
    from agentx.report.page import MAX_RUNS, render
    from agentx.report.view import load_runs

    if len(runs) > MAX_RUNS:
        raise CommandError(f"{len(runs)} runs are too many for one page: {MAX_RUNS} at most")
    check_target(out)
    views = load_runs(runs)
    size = write_page(out, render(views))
    if as_json:
        print_json(
            {
                "report": str(out.resolve()),
                "bytes": size,
                "runs": [
                    {"run": str(run.resolve()), "name": view.name, "requests": len(view.rows)}
                    for run, view in zip(runs, views, strict=True)
                ],
            }
        )
    else:
        click.echo(str(out))


def check_target(path: Path) -> None:
    """Refuse a path that no page can be written to, before any work is done.

    Raises:
        CommandError: it is a folder, is in none, or is a file that is no page of ours.
    """
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a file in it, as {path / 'report.html'}")
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent} is no folder: make it first, or name another with -o")
    if path.exists() and not _is_page(path):
        raise CommandError(
            f"{path} exists and is no page of AgentX: it is left as it is, name another with -o"
        )


def _is_page(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"<title>AgentX report" in file.read(4096)


def write_page(path: Path, page: str) -> int:
    """Write a page whole or not at all; returns its size in bytes."""
    data = page.encode()
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return len(data)
