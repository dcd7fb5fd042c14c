"""`agentx demo`: the whole path on bundled traces, in under a minute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from agentx.cli.output import json_option, log, print_json, progress
from agentx.cli.signals import ended_by_exception

if TYPE_CHECKING:
    from rich.table import Table

    from agentx.datasets.parquet.reader import Dataset
    from agentx.replay.conduct import Outcome

SESSIONS_AT_ONCE = (1, 2, 3)
KV_TOKENS = 150_000
"""Room for one of the bundled conversations at its longest, and not for three."""

SPEED = 100.0
"""So many times faster than life: a quarter of an hour of serving takes some 10 seconds."""

THINK_S = 1
"""Longest time between an answer and the next request; recorded ones are minutes."""

SEED = 0
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class Level:
    """One run of the demo: how many sessions at once, and what came of it."""

    sessions: int
    folder: Path
    aggregate: Mapping[str, Any]


@click.command()
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to make, which must be new.  [default: a new one under runs/]",
)
@json_option
def demo(out: Path | None, as_json: bool) -> int:
    """Try the whole path: bundled real traces, the simulated engine, a replay, a report.

    Three recorded sessions of coding agents (225 requests) are imported, and replayed at one, two
    and three sessions at once, each time against a fresh engine in a process of its own, whose
    cache holds 150,000 tokens: enough for one session, not for three. Its clock, and think time,
    run 100 times faster than life, and think time is capped at 1 second. Nothing leaves this
    machine. DIR gets the data set, a run folder for each level, and the page report.html.

    \b
    agentx demo
    agentx demo -o my-first-demo --json
    """
    from agentx.cli.errors import CommandError

    folder = _new_folder() if out is None else out
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise CommandError(f"{folder} exists already: name a new folder with -o") from None
    try:
        return _run(folder, as_json=as_json)
    finally:
        # Stopped before anything was in it, the folder would only be in the next demo's way.
        with suppress(OSError):
            folder.rmdir()


def _run(folder: Path, *, as_json: bool) -> int:
    """The demo into an empty folder; returns the exit status."""
    began = perf_counter()
    dataset = _import(folder / "dataset")
    levels: list[Level] = []
    for sessions in SESSIONS_AT_ONCE:
        run = folder / f"sessions-{sessions}"
        outcome = _replay(dataset, run, sessions)
        if outcome.stopped_by is not None:
            log(f"Stopped by {outcome.stopped_by.name}; what had ended is in {folder}.")
            return 128 + outcome.stopped_by
        levels.append(Level(sessions, run, outcome.document["aggregate"]))
    page = _report(folder / REPORT, levels)
    document = _document(levels, dataset, page, perf_counter() - began)
    if as_json:
        print_json(document)
    else:
        _print(levels, page)
    return 0


def _new_folder() -> Path:
    """A folder under runs/ that is not there yet, named after the time."""
    stem = f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    candidates = (
        Path("runs") / (stem + suffix) for suffix in ("", *map("-{}".format, range(2, 100)))
    )
    return next(folder for folder in candidates if not folder.exists())


def _import(folder: Path) -> Dataset:
    from agentx.datasets.importer import import_weka
    from agentx.datasets.parquet.reader import open_dataset
    from agentx.datasets.samples import sample_folder

    with ended_by_exception(), sample_folder() as traces:
        log("Importing three bundled traces ...")
        info = import_weka(traces, folder, licence="Apache-2.0", say=log)
    counts = info.counts
    log(f"  {counts.sessions} sessions, {counts.requests} requests, {counts.subagents} subagents")
    return open_dataset(folder)


def _replay(dataset: Dataset, folder: Path, sessions: int) -> Outcome:
    import uvloop

    from agentx.replay.conduct import conduct
    from agentx.replay.options import Options

    options = Options(
        sessions=sessions,
        think=str(THINK_S),
        kv_tokens=KV_TOKENS,
        engine_speed=SPEED,
        seed=SEED,
    )
    log(f"Replaying, {sessions} at once, against a fresh engine ...")
    began = perf_counter()
    with progress() as bar:
        task = bar.add_task(f"{sessions} at once", total=dataset.info.counts.requests)
        outcome = uvloop.run(
            conduct(
                dataset,
                folder,
                options,
                say=log,
                show=lambda done: bar.update(task, completed=done.requests),
            )
        )
    requests = outcome.document["aggregate"]["requests"]
    failed = f", {requests['failed']} failed" if requests["failed"] else ""
    log(f"  {requests['ok']} answered{failed}, {perf_counter() - began:.1f} s")
    return outcome


def _report(path: Path, levels: Sequence[Level]) -> Path:
    from agentx.cli.report import write_page
    from agentx.report.page import render
    from agentx.report.view import load_runs

    log("Writing the report ...")
    write_page(path, render(load_runs([level.folder for level in levels])))
    return path.resolve()


def _document(
    levels: Sequence[Level], dataset: Dataset, page: Path, seconds: float
) -> dict[str, Any]:
    return {
        "levels": [
            {
                "sessions_at_once": level.sessions,
                "run": str(level.folder.resolve()),
                **level.aggregate,
            }
            for level in levels
        ],
        "dataset": str(dataset.folder.resolve()),
        "report": str(page),
        "kv_tokens": KV_TOKENS,
        "think_s": THINK_S,
        "scaled": SPEED,
        "wall_s": round(seconds, 1),
    }


def _print(levels: Sequence[Level], page: Path) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(levels))
    for sentence in _remarks(levels):
        console.print(sentence, highlight=False, markup=False)
    # Alone on its line and never broken, so that it can be clicked or copied.
    console.print(f"Report: {page}", highlight=False, markup=False, soft_wrap=True)


def _table(levels: Sequence[Level]) -> Table:
    from rich.table import Table

    from agentx.report import units

    table = Table(box=None, pad_edge=False, title_justify="left")
    for heading in (
        "Sessions\nat once",
        "Requests\nanswered",
        "Hit rate\ntheoretical",
        "Hit rate\nreported",
        "TTFT\np50",
        "TTFT\np99",
        "TPOT\np50",
        "Output\ntokens/s",
    ):
        table.add_column(heading, justify="right")
    for level in levels:
        found = level.aggregate
        requests, rates = found["requests"], found["hit_rate"]
        ttft, tpot = _engines_own(found, "ttft_ms"), _engines_own(found, "tpot_ms")
        table.add_row(
            str(level.sessions),
            f"{requests['ok']}/{requests['ok'] + requests['failed']}",
            units.percent(rates["theoretical"]),
            units.percent(rates["reported"]),
            units.duration(ttft["p50"]),
            units.duration(ttft["p99"]),
            units.duration(tpot["p50"]),
            units.short(found["throughput"]["output_tokens_per_s"]),
        )
    return table


def _engines_own(aggregate: Mapping[str, Any], latency: str) -> Mapping[str, float | None]:
    """A latency by the engine's own clock: what we measure at this speed is partly our own lag."""
    own = aggregate["engine"]
    return own[latency] if own else dict.fromkeys(("p50", "p90", "p99", "mean"))


def _remarks(levels: Sequence[Level]) -> Iterator[str]:
    from agentx.report import units

    yield (
        f"The cache holds {KV_TOKENS:,} tokens. Theoretical: what an endless one would have had; "
        "what reported lacks of it was evicted and computed again."
    )
    lags = [level.aggregate["client"]["error_ms"] for level in levels]
    worst = max((lag for lag in lags if lag is not None), default=None)
    yield (
        f"Scaled: the engine's clock ran {SPEED:g} times faster than life, and think time was "
        f"capped at {THINK_S} s. Times are engine time. TTFT and TPOT are the engine's own; "
        "tokens/s is measured, with the client's lag as an error of up to "
        f"{units.duration(worst)} a request."
    )
    if bound := [str(level.sessions) for level in levels if level.aggregate["client"]["bound"]]:
        yield (
            f"Client-bound at {', '.join(bound)} at once: this machine was too busy for the clock, "
            "and what is measured there is partly its own lag."
        )
