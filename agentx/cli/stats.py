"""`agentx stats`: what is in a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentx.cli.output import json_option, print_json, progress

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option(
    "--capacity",
    "capacities",
    metavar="TOKENS",
    type=click.IntRange(min=1),
    multiple=True,
    help="A cache size for the achievable hit rates; may be given several times.",
)
@json_option
def stats(dataset: Path, capacities: tuple[int, ...], as_json: bool) -> None:
    """Show what is in a data set: tokens, hit rates by scope, working sets, gaps.

    \b
    agentx stats dataset
    agentx stats dataset --capacity 500000 --capacity 2000000 --json
    """
    from rich.console import Console

    from agentx.datasets.parquet.reader import open_dataset
    from agentx.datasets.stats import dataset_stats

    opened = open_dataset(dataset)
    with progress() as bar:
        task = bar.add_task("reading sessions", total=len(opened))
        found = dataset_stats(opened, capacities, lambda: bar.advance(task))
    if as_json:
        print_json(found)
        return
    console = Console()
    for table in _tables(found):
        console.print(table)


def _tables(found: dict[str, Any]) -> list[Table]:
    return [_contents(found), _spreads(found), _rates(found), _achievable(found)]


def _contents(found: dict[str, Any]) -> Table:
    append_only = found["append_only"]
    alike = found["alike"]["identical"]
    table = _table("", "", title="Contents")
    rows = {
        "sessions": f"{found['sessions']:,} ({found['sessions_with_subagents']:,} with subagents)",
        "requests": f"{found['requests']:,} ({found['requests_in_subagents']:,} in "
        f"{found['subagents']:,} subagents)",
        "input tokens": f"{found['input_tokens']['total']:,}",
        "output tokens": f"{found['output_tokens']['total']:,}"
        + (
            f" ({found['output_tokens']['unknown']:,} requests unknown)"
            if found["output_tokens"]["unknown"]
            else ""
        ),
        "distinct blocks": f"{found['blocks']:,} of {found['block_size']} tokens "
        f"(scope {found['hash_scope']})",
        "append-only requests": _percent(append_only["share"]) + " of those with a predecessor",
        "context over 131,072 tokens": _percent(found["context_over"]["131072"]) + " of requests",
        "identical sessions": f"{alike['sessions']:,} in {alike['groups']:,} groups",
        "models": ", ".join(f"{name} {count:,}" for name, count in found["models"].items()),
    }
    for row in rows.items():
        table.add_row(*row)
    return table


def _spreads(found: dict[str, Any]) -> Table:
    table = _table("", "p50", "p90", "max", title="Spread")
    for name, key in (
        ("input tokens a request", "input_tokens"),
        ("output tokens a request", "output_tokens"),
        ("working set of a session, tokens", "working_set_tokens_per_session"),
    ):
        table.add_row(name, *(_whole(found[key][point]) for point in ("p50", "p90", "max")))
    table.add_row(
        "length of a session, s",
        *(_seconds(found["session_ms"][point]) for point in ("p50", "p90", "max")),
    )
    for kind, gaps in found["think_ms"].items():
        if gaps["requests"]:
            name = {"tool": "tool time, s", "user": "user time, s"}.get(kind, "other think time, s")
            table.add_row(name, _seconds(gaps["p50"]), _seconds(gaps["p90"]), "")
    return table


def _rates(found: dict[str, Any]) -> Table:
    table = _table(
        "scope", "recorded", "with tails", "live history", "mean of requests", "median",
        title="Theoretical hit rate (an endless cache; token-weighted, and recorded per request)",
    )  # fmt: skip
    for scope, rate in found["hit_rate"].items():
        table.add_row(
            scope,
            _percent(rate["token_weighted"]),
            _percent(found["hit_rate_with_tail"][scope]["token_weighted"]),
            _percent(found["hit_rate_live"][scope]["token_weighted"]),
            _percent(rate["request_mean"]),
            _percent(rate["request_median"]),
        )
    return table


def _achievable(found: dict[str, Any]) -> Table:
    table = _table(
        "capacity, tokens", "blocks", "of tokens, at arrival", "of block touches",
        title="Achievable hit rate (one LRU cache, all sessions)",
    )  # fmt: skip
    for row in found["achievable_hit_rate"]["lru"]:
        table.add_row(
            f"{row['capacity_tokens']:,}",
            f"{row['capacity_blocks']:,}",
            _percent(row["token_weighted"]),
            _percent(row["per_touch"]),
        )
    return table


def _table(first: str, *others: str, title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=bool(first or others[0])
    )
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    return table


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"


def _whole(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def _seconds(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds / 1000:,.1f}"
