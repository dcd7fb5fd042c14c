"""Every number of the page is the run's own, with its source; unknown stays unknown."""

from __future__ import annotations

import pytest

from agentx.report import numbers
from agentx.report.facts import number
from agentx.report.numbers import Figure
from agentx.report.view import RunView
from tests.report import synthetic


def figures_of(run: RunView) -> list[Figure]:
    found = [*numbers.headline(run, own_times=True), *numbers.throughput(run), *numbers.cache(run)]
    found += [figure for spread in numbers.latencies(run) for figure in spread.figures]
    return [*found, *numbers.client(run)]


def test_every_number_is_that_of_run_json() -> None:
    run = synthetic.run().view()
    stored = [figure for figure in figures_of(run) if not figure.key.startswith("tokens.")]
    known = 0
    for figure in stored:
        path = figure.key.split(".")
        assert figure.value == number(run.aggregate, *path)
        known += figure.value is not None
    assert known > 25


def test_what_the_run_does_not_know_is_a_dash() -> None:
    made = synthetic.run()
    for row in made.requests:
        synthetic.fail(row, "connect", "refused")
    figures = {figure.key: figure for figure in figures_of(made.view())}
    for key in ("hit_rate.reported", "hit_rate.theoretical", "ttft_ms.p50", "tokens.reported"):
        assert figures[key].value is None
        assert figures[key].shown == "–"
    assert figures["requests.ok"].shown == f"0 of {len(made.requests)}"


def test_a_document_of_another_shape_breaks_nothing() -> None:
    run = synthetic.run().view()
    odds: tuple[object, ...] = (
        None,
        [],
        "x",
        {"requests": 3, "ttft_ms": [1], "client": {"bound": "no"}},
    )
    for aggregate in odds:
        odd = RunView(run.name, {"aggregate": aggregate}, run.rows, None, {})
        figures = {figure.key: figure for figure in figures_of(odd)}
        assert figures["ttft_ms.p50"].shown == "–"
        assert figures["requests.ok"].shown == "– of –"
        assert figures["client.bound"].shown == "unknown"


def test_tpot_says_in_how_many_answers_it_is_assumed() -> None:
    made = synthetic.run()
    spreads = {spread.label: spread for spread in numbers.latencies(made.view())}
    assert spreads["TPOT"].source == "assumed"
    assert f"{len(made.requests)} of {len(made.requests)} answers" in spreads["TPOT"].meaning
    synthetic.fail(made.requests[0], "broken", "")
    made.requests[0] |= {"tpot_ms": 5.0, "tpot_assumed": True}
    spreads = {spread.label: spread for spread in numbers.latencies(made.view())}
    left = len(made.requests) - 1
    assert f"{left} of {left} answers" in spreads["TPOT"].meaning
    for row in made.requests:
        row["tpot_assumed"] = False
    spreads = {spread.label: spread for spread in numbers.latencies(made.view())}
    assert spreads["TPOT"].source == "measured"
    assert "TTFT by the engine" not in spreads


def test_one_number_has_one_source_wherever_it_stands() -> None:
    made = synthetic.run()
    for row in made.requests:
        row |= {"engine_ttft_ms": 7.0, "engine_tpot_ms": 8.5, "engine_e2e_ms": 9.0}
    for assumed in (True, False):
        for row in made.requests:
            row["tpot_assumed"] = assumed
        sources: dict[str, set[str]] = {}
        for figure in figures_of(made.view()):
            sources.setdefault(figure.key, set()).add(figure.source)
        assert {key: found for key, found in sources.items() if len(found) > 1} == {}
        assert sources["tpot_ms.p50"] == {"assumed" if assumed else "measured"}


def test_the_engines_own_times_stand_beside_ours() -> None:
    made = synthetic.run()
    made.head["scaled"] = 10.0
    for row in made.requests:
        row |= {"engine_ttft_ms": 7.0, "engine_tpot_ms": 8.5, "engine_e2e_ms": 9.0}
    spreads = {spread.label: spread for spread in numbers.latencies(made.view())}
    assert spreads["TTFT by the engine"].source == "reported"
    assert spreads["TTFT by the engine"].figures[0].value == 7.0
    assert numbers.tells_own_times(made.view())
    assert not numbers.tells_own_times(synthetic.run().view())
    labels = [figure.label for figure in numbers.headline(made.view(), own_times=True)]
    assert {"TTFT by the engine, median", "TPOT by the engine, median"} <= set(labels)
    assert spreads["TPOT by the engine"].figures[0].value == 8.5
    ttft = sorted(row["ttft_ms"] * 10 for row in made.requests)
    assert spreads["TTFT"].figures[0].value == pytest.approx((ttft[59] + ttft[60]) / 2, rel=1e-4)


def test_marks_are_the_percentiles_or_nothing() -> None:
    run = synthetic.run().view()
    ttft = run.aggregate["ttft_ms"]
    assert numbers.marks(run)["ttft"] == (ttft["p50"], ttft["p90"], ttft["p99"])
    assert numbers.marks(RunView("x", {}, run.rows, None, {}))["ttft"] is None
