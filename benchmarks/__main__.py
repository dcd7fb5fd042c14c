"""Runs the benchmarks named, or all of them, and prints their figures as a table."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

import benchmarks


def run(names: list[str]) -> int:
    """Run benchmarks by name; 2 for one that does not exist."""
    known = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_")
    ]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"There is no benchmark {', '.join(unknown)}; choose of {', '.join(known)}.",
            file=sys.stderr,
        )
        return 2
    table = Table("benchmark", "figure")
    table.add_column("value", justify="right")
    for name in names or known:
        figures = importlib.import_module(f"benchmarks.{name}").main()
        for figure, value in _flat(figures):
            table.add_row(name, figure, f"{value:,.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
    return 0


def _flat(figures: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}: ")
        else:
            yield within + name, value


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
