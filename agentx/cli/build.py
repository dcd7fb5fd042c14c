"""`agentx build`: what was captured to a data set."""

from __future__ import annotations

from pathlib import Path

import click

from agentx.cli.output import json_option, log, print_json, progress
from agentx.cli.signals import ended_by_exception


@click.command()
@click.argument(
    "spools", metavar="SPOOL...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="DATASET",
    type=click.Path(path_type=Path),
    help="The folder to write; it must not exist yet, or be empty.",
)
@click.option(
    "--key",
    "key_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hash key, as an earlier build's DATASET.private/key; a file that does not exist gets "
    "a new one.  [default: DATASET.private/key]",
)
@click.option("--overwrite", is_flag=True, help="Replace a data set that is at DATASET already.")
@json_option
def build(
    spools: tuple[Path, ...], out: Path, key_file: Path | None, overwrite: bool, as_json: bool
) -> None:
    """Turn what 'agentx capture' wrote into a data set, without its text.

    Each SPOOL is a folder that 'agentx capture --spool' wrote; several become one data set.
    Sessions and their subagents are found by the ids that agents send. The hash key and the map
    to real ids go to DATASET.private, which is for you alone.

    \b
    agentx build spool/ -o dataset
    agentx build monday/ tuesday/ -o dataset --key team.key --json
    """
    from dataclasses import asdict

    from agentx.datasets.build import build as build_dataset

    with ended_by_exception(), progress() as bar:
        tasks = {what: bar.add_task(what, total=None) for what in ("exchanges", "sessions")}
        built = build_dataset(
            spools,
            out,
            key_file=key_file,
            overwrite=overwrite,
            progress=lambda what, done: bar.update(tasks[what], completed=done),
        )
    for reason, dropped in built.info.dropped.items():
        log(f"not built: {dropped.count:,} {dropped.what} ({reason})")
    if as_json:
        print_json(
            {
                "dataset": str(out.absolute()),
                "private": str(built.private),
                "exchanges": built.exchanges,
                "body_bytes": built.body_bytes,
                **asdict(built.info),
            }
        )
        return
    counts = built.info.counts
    click.echo(
        f"{out}: {counts.sessions:,} sessions, {counts.requests:,} requests, "
        f"{counts.subagents:,} subagents, {counts.blocks:,} blocks of "
        f"{built.info.block_size} tokens, from {built.exchanges:,} exchanges"
    )
