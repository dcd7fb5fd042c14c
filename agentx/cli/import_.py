"""`agentx import`: foreign traces to a data set."""

from __future__ import annotations

from pathlib import Path

import click

from agentx.cli.output import json_option, log, print_json, progress
from agentx.cli.signals import ended_by_exception


@click.group("import")
def import_group() -> None:
    """Turn traces of another form into a data set.

    \b
    agentx import weka traces/ -o dataset
    """


@import_group.command("weka")
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="DATASET",
    type=click.Path(path_type=Path),
    help="The folder to write; it must not exist yet, or be empty.",
)
@click.option("--overwrite", is_flag=True, help="Replace a data set that is at DATASET already.")
@click.option("--licence", metavar="NAME", help="The traces' licence, for the data card (SPDX).")
@json_option
def weka(source: Path, out: Path, overwrite: bool, licence: str | None, as_json: bool) -> None:
    """Import weka traces (kv-cache-tester's or InferenceX's form).

    SRC is a trace (.json, .json.gz), a file with one a line (.jsonl, .jsonl.gz), or a folder that
    is searched for such files. JSON in a folder that is no trace is skipped and named; a trace
    that is cut off or wrong fails the import, and then nothing is written.

    \b
    agentx import weka traces/ -o dataset
    agentx import weka trace_0001.json.gz -o dataset --json
    """
    from dataclasses import asdict

    from agentx.datasets.importer import import_weka

    with ended_by_exception(), progress() as bar:
        task = bar.add_task("reading traces", total=None)
        info = import_weka(
            source,
            out,
            licence=licence,
            overwrite=overwrite,
            say=log,
            file_done=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({"dataset": str(out.absolute()), **asdict(info)})
        return
    counts = info.counts
    click.echo(
        f"{out}: {counts.sessions:,} sessions, {counts.requests:,} requests, "
        f"{counts.subagents:,} subagents, {counts.blocks:,} blocks of {info.block_size} tokens"
    )
