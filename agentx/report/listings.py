"""The page's lists: errors, failed requests, how a run was made, what tells two runs apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentx.report import units
from agentx.report.facts import at, flat, number, text, visible
from agentx.report.view import RunView

MAX_FAILED = 50
"""Failed requests that a page lists; all are in requests.parquet."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request."""

    session: str
    request: str
    agent: str
    lane: str
    kind: str
    sent: str
    error: str
    detail: str


def errors(run: RunView) -> tuple[tuple[str, int], ...]:
    """Failed requests by class, most frequent first."""
    classes = Counter(visible(error, 40) for error in run.rows.error if error is not None)
    return tuple(classes.most_common())


def failures(run: RunView) -> tuple[Failure, ...]:
    """The first failed requests, in the order sent."""
    rows = run.rows
    return tuple(
        Failure(
            session=visible(rows.session[i] or "unknown", 60),
            request=units.whole(_known(rows.request[i])),
            agent=visible(rows.agent[i] or "unknown", 40),
            lane=units.whole(_known(rows.lane[i])),
            kind=visible(rows.kind[i] or "unknown", 20),
            sent=units.duration(_known(rows.sent_s[i] * 1000)),
            error=visible(rows.error[i] or "unknown", 40),
            detail=visible(rows.error_detail[i] or units.UNKNOWN, 200),
        )
        for i in np.flatnonzero(rows.failed)[:MAX_FAILED].tolist()
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


_GROUPS = (
    ("Options", "configuration"),
    ("Endpoint", "endpoint"),
    ("Data set", "dataset"),
    ("Probe", "probe"),
    ("Sessions", "aggregate", "sessions"),
    ("Cut", "aggregate", "cut"),
    ("Verdicts", "verdicts"),
    ("Environment", "environment"),
)


def how_it_was_run(run: RunView) -> tuple[tuple[str, list[tuple[str, str]]], ...]:
    """Groups of (title, lines of (key, value)), as run.json has them."""
    top = [
        ("AgentX", text(run.document, "agentx_version") or "unknown"),
        ("run format", units.whole(number(run.document, "format_version"))),
        ("started", text(run.document, "started") or "unknown"),
        ("complete", units.yes_no(at(run.document, "complete"))),
        ("seed", units.whole(number(run.document, "seed")).replace(",", "")),
    ]
    groups = [("Run", top)]
    for title, *path in _GROUPS:
        value = at(run.document, *path)
        if value is not None:
            lines = flat(value)
            groups.append((title, [(name or title.lower(), shown) for name, shown in lines]))
    return tuple(groups)


def differences(runs: Sequence[RunView]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """For each run, the options in which the runs differ, as (option, value)."""
    options = [dict(flat(at(run.document, "configuration"))) for run in runs]
    names = [name for name in options[0] if any(o.get(name) != options[0][name] for o in options)]
    names += [n for n in dict.fromkeys(n for o in options for n in o) if n not in options[0]]
    return tuple(
        tuple((name, option.get(name, units.UNKNOWN)) for name in names if name)
        for option in options
    )
