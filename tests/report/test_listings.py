"""Lists of the page: bounded, and in the order in which a reader looks for them."""

from __future__ import annotations

from agentx.report import listings
from tests.report import synthetic


def test_errors_are_counted_by_class_and_the_first_failures_listed() -> None:
    made = synthetic.run()
    for row in made.requests[:60]:
        synthetic.fail(row, "timeout", "no byte in 600 s")
    synthetic.fail(made.requests[60], "http_5xx", "x" * 5000)
    run = made.view()
    assert listings.errors(run) == (("timeout", 60), ("http_5xx", 1))
    failures = listings.failures(run)
    assert len(failures) == listings.MAX_FAILED
    assert failures[0].session == made.requests[0]["session_id"]
    assert failures[0].detail == "no byte in 600 s"


def test_a_failure_that_says_nothing_is_unknown_and_a_long_one_is_cut() -> None:
    made = synthetic.run(1, 2, 1)
    synthetic.fail(made.requests[0], "broken", "x" * 5000)
    made.requests[1] |= {"error": "odd", "session_id": None, "agent_id": None}
    long, silent = listings.failures(made.view())
    assert len(long.detail) == 200
    assert (silent.session, silent.agent, silent.detail) == ("unknown", "unknown", "–")


def test_how_a_run_was_made_is_all_there() -> None:
    groups = dict(listings.how_it_was_run(synthetic.run().view()))
    assert ("seed", "0") in groups["Run"]
    assert ("think", "recorded") in groups["Options"]
    assert ("max_context", "–") in groups["Options"]
    assert ("counting.slope", "1") in groups["Probe"]
    assert ("agents", "1") in groups["Cut"]


def test_runs_are_told_apart_by_the_options_in_which_they_differ() -> None:
    first, second = synthetic.run(), synthetic.run()
    second.head["configuration"] = {"sessions": 8, "think": "recorded", "kv_tokens": 1000}
    assert listings.differences([first.view(), second.view()]) == (
        (("sessions", "3"), ("max_context", "–"), ("kv_tokens", "–")),
        (("sessions", "8"), ("max_context", "–"), ("kv_tokens", "1000")),
    )


def test_runs_without_options_do_not_differ() -> None:
    made = synthetic.run()
    made.head.pop("configuration")
    assert listings.differences([made.view(), made.view()]) == ((), ())
