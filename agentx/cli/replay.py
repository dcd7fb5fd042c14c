"""`agentx replay`: a data set against an endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentx.cli.output import json_option, log, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from agentx.replay.recorded import Progress

TIMES = ("ttft", "tpot", "itl", "e2e")
OWN_TIMES = ("ttft", "tpot", "e2e")


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "--url",
    help="An OpenAI-compatible server, with or without /v1; its key in OPENAI_API_KEY.  "
    "[default: the embedded engine]",
)
@click.option("--model", help="Name of the model.  [default: the server's, if it has one]")
@click.option(
    "--sessions",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Sessions at once; each is replaced when it ends.",
)
@click.option("--max-requests", type=click.IntRange(min=1), help="End after so many, in all.")
@click.option(
    "--think",
    default="recorded",
    show_default=True,
    metavar="recorded|none|SECONDS",
    help="Time between an answer and the next request; seconds cap what was recorded.",
)
@click.option(
    "--max-context",
    type=click.IntRange(min=1),
    help="End an agent's line before its first request of more tokens.",
)
@click.option(
    "--kv-tokens",
    type=click.IntRange(min=16),
    help="Capacity of the embedded engine's cache.  [default: no end]",
)
@click.option(
    "--engine-speed",
    type=click.FloatRange(min=0, min_open=True, max=1e6),
    help="Run the embedded engine's clock, and think time, so many times faster.  [default: 1]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    help="Choose the words.  [default: drawn, so that no run finds another's cache warm]",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="The run's folder, which must be new.  [default: a new one under runs/]",
)
@click.option("--no-preflight", is_flag=True, help="Send no probes before the load.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Give a request up after so many seconds without an event.",
)
@json_option
def replay(
    dataset: Path,
    url: str | None,
    model: str | None,
    sessions: int,
    max_requests: int | None,
    think: str,
    max_context: int | None,
    kv_tokens: int | None,
    engine_speed: float | None,
    seed: int | None,
    out: Path | None,
    no_preflight: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Send a data set's requests to a server as the agents sent them, and measure.

    Each session runs once, from its start; a session's next request waits for the answer to the
    last, and for the recorded think time. Without --url the simulated engine is started for it.
    Exit status 130 or 143: stopped by Ctrl-C or SIGTERM; the run holds what finished.

    \b
    agentx replay DATASET --engine-speed 100 --sessions 4
    agentx replay DATASET --url http://localhost:8000 --sessions 16 --think 5 -o runs/first
    """
    import secrets

    import uvloop

    from agentx.datasets.parquet.reader import open_dataset
    from agentx.replay.conduct import conduct
    from agentx.replay.options import Options

    opened = open_dataset(dataset)
    options = Options(
        url=url,
        model=model,
        sessions=sessions,
        max_requests=max_requests,
        think=think,
        max_context=max_context,
        kv_tokens=kv_tokens,
        engine_speed=engine_speed,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        preflight=not no_preflight,
        timeout_s=timeout,
    )
    folder = out if out is not None else _new_folder(dataset)
    with _shown() as show:
        outcome = uvloop.run(conduct(opened, folder, options, say=log, show=show))
    document = {
        **outcome.document["aggregate"],
        **{
            key: outcome.document[key]
            for key in ("complete", "stopped_by", "verdicts", "seed", "dataset", "endpoint")
        },
        "run": str(folder.resolve()),
    }
    if as_json:
        print_json(document)
    else:
        _print(document)
    return 0 if outcome.stopped_by is None else 128 + outcome.stopped_by


def _new_folder(dataset: Path) -> Path:
    """A folder under runs/ that is not there yet, named after the time and the data set."""
    from datetime import datetime

    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{dataset.resolve().name}"
    candidates = (
        Path("runs") / (stem + suffix) for suffix in ("", *map("-{}".format, range(2, 100)))
    )
    return next(folder for folder in candidates if not folder.exists())


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """A progress bar, told of a few requests a second however many there are."""
    from time import monotonic

    told = 0.0
    with progress() as bar:
        task = bar.add_task("replay", total=None)

        def show(done: Progress) -> None:
            nonlocal told
            now = monotonic()
            if now - told < 0.1 and done.requests < done.planned:
                return
            told = now
            failed = f", {done.failed} failed" if done.failed else ""
            bar.update(
                task, completed=done.requests, total=done.planned, description="replay" + failed
            )

        yield show


def _print(document: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    console.print(_table(document))
    for sentence in _remarks(document):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    console.print(f"Run: {document['run']}", highlight=False, markup=False, soft_wrap=True)


def _table(document: Mapping[str, Any]) -> Table:
    from rich.table import Table

    columns = ("p50", "p90", "p99", "mean")
    unit = "ms, engine time" if document["scaled"] else "ms"
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    rows = [(f"{key.upper()} ({unit})", document[f"{key}_ms"]) for key in TIMES]
    if own := document["engine"]:
        # What the client measures of a fast clock is partly its own lag, and the engine knows.
        rows += [(f"{key.upper()} (ms, engine's own)", own[f"{key}_ms"]) for key in OWN_TIMES]
    for name, figures in rows:
        table.add_row(name, *(_number(figures[column]) for column in columns))
    return table


def _remarks(document: Mapping[str, Any]) -> Iterator[str]:
    requests, rates, speed = document["requests"], document["hit_rate"], document["throughput"]
    yield f"Requests: {requests['ok']:,} answered, {requests['failed']:,} failed"
    for kind, count in document["errors"].items():
        yield f"  {kind}: {count:,}"
    limit = document["endpoint"]["context_limit"]
    if limit is not None and "http_4xx" in document["errors"]:
        yield f"  The server takes {limit:,} tokens at most; --max-context ends lines before that"
    yield (
        f"Hit rate: theoretical {_share(rates['theoretical'])}, "
        f"reported {_share(rates['reported'])}, by metrics {_share(rates['metrics'])}"
    )
    if "more-hits-than-possible" in document["verdicts"]:
        surplus = document["hits_beyond_possible"]
        yield (
            f"  More hits than possible: {surplus['requests']:,} requests reported "
            f"{surplus['tokens']:,} cached tokens that had not been sent before; the cache was "
            "warm (give another --seed, or start the server anew), or the server counts wrongly"
        )
    yield (
        f"Throughput: {_number(speed['requests_per_s'])} requests/s, "
        f"{_number(speed['input_tokens_per_s'])} input tokens/s, "
        f"{_number(speed['output_tokens_per_s'])} output tokens/s"
    )
    if cut := document["cut"]["requests"]:
        lines = document["cut"]["lines"]
        yield f"Cut by --max-context: {cut:,} requests of {lines:,} agents"
    client = document["client"]
    if document["scaled"]:
        yield (
            f"Scaled: the engine's clock ran {document['scaled']:g} times faster than life; "
            f"the client's lag is an error of {_number(client['error_ms'])} ms, and makes TPOT and "
            "ITL too small (tokens that it takes in one piece seem to have come at once)"
        )
    if client["bound"]:
        yield (
            "Client-bound: this machine did not keep up with the load "
            f"(p99 send lag {_number(client['send_lag_ms'])} ms, {client['cpu_s']:g} s of CPU); "
            "use fewer sessions or a slower clock"
        )
    if not document["complete"]:
        yield f"Partial: stopped by {document['stopped_by']}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2%}"
