"""What a reader must know stands above the numbers, the gravest first."""

from __future__ import annotations

from agentx.replay.aggregate import ClientState
from agentx.report.notices import notices
from agentx.report.view import RunView
from tests.report import synthetic


def marks(run: RunView) -> list[str]:
    return [notice.mark for notice in notices(run)]


def test_a_run_without_faults_has_none() -> None:
    assert marks(synthetic.run().view()) == []


def test_all_that_holds_is_said() -> None:
    made = synthetic.run()
    made.complete = False
    made.head["scaled"] = 20.0
    made.client = ClientState([5.0], 10_000.0, 100.0)
    synthetic.fail(made.requests[0], "timeout", "")
    run = made.view()
    assert marks(run) == ["partial", "client-bound", "1 failed", "scaled"]
    words = " ".join(notice.words for notice in notices(run))
    assert "stopped by SIGINT" in words
    assert "20 times faster" in words
    assert "100 ms" in words  # the loop's 5 ms × 20
    assert "TPOT and ITL too small" in words


def test_a_run_with_no_answer_says_that_first_and_once() -> None:
    made = synthetic.run(1, 3, 1)
    for row in made.requests:
        synthetic.fail(row, "connect", "refused")
    assert marks(made.view()) == ["none answered"]
    made.requests.clear()
    assert marks(made.view()) == ["none answered"]


def test_more_hits_than_possible_are_a_warning() -> None:
    run = synthetic.run().view()
    for beyond, expected in (
        ({"requests": 3, "tokens": 9000}, ["more hits than possible"]),
        ({"requests": 0, "tokens": 0}, []),
        (None, []),
        ("x", []),
    ):
        aggregate = {**run.aggregate, "hits_beyond_possible": beyond}
        document = {**run.document, "aggregate": aggregate}
        assert marks(RunView(run.name, document, run.rows, None, {})) == expected


def test_verdicts_of_the_run_are_put_in_words() -> None:
    run = synthetic.run().view()
    document = {**run.document, "verdicts": ["metrics-reset", "words-adjusted", "unheard-of", 3]}
    view = RunView(run.name, document, run.rows, None, {})
    assert marks(view) == ["words-adjusted", "metrics-reset"]


def test_a_run_that_does_not_say_that_it_is_complete_is_partial() -> None:
    run = synthetic.run().view()
    view = RunView(run.name, {"aggregate": run.aggregate, "complete": "yes"}, run.rows, None, {})
    assert marks(view) == ["partial"]
