from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.replay.errors import ReplayError
from agentx.replay.plan import (
    Cut,
    PlannedRequest,
    SessionPlan,
    assign_lanes,
    plan_session,
    shortest_start,
)
from tests.replay.traces import Told, request, session, told_sessions


def by_index(plan: SessionPlan) -> dict[int, PlannedRequest]:
    return {planned.index: planned for planned in plan.requests}


def test_lanes_take_the_next_session_where_least_is_done() -> None:
    assert assign_lanes([5, 1, 1, 1, 4, 1], 2) == ((0, 5), (1, 2, 3, 4))


def test_more_lanes_than_sessions_stay_empty() -> None:
    assert assign_lanes([3, 3], 4) == ((0,), (1,), (), ())


def test_no_lane_is_an_error() -> None:
    with pytest.raises(ReplayError, match="at least one"):
        assign_lanes([1], 0)


@given(st.lists(st.integers(0, 50)), st.integers(1, 6))
def test_every_session_is_dealt_once_and_in_order(weights: list[int], lanes: int) -> None:
    dealt = assign_lanes(weights, lanes)
    assert sorted(at for lane in dealt for at in lane) == list(range(len(weights)))
    assert all(list(lane) == sorted(lane) for lane in dealt)
    loads = [sum(weights[at] for at in lane) for lane in dealt]
    assert max(loads) - min(loads) <= max(weights, default=0)


def test_a_line_ends_before_its_first_longer_request() -> None:
    plan = plan_session(
        session(
            request(0, context_tokens=10),
            request(1, context_tokens=30, parent=0),
            request(2, context_tokens=5, parent=1),
        ),
        max_context=20,
    )
    assert [planned.index for planned in plan.requests] == [0]
    assert plan.cut == Cut(lines=1, requests=2, tokens=35)


def test_a_request_as_long_as_the_limit_is_sent() -> None:
    plan = plan_session(session(request(0, context_tokens=20)), max_context=20)
    assert plan.cut == Cut()
    assert len(plan.requests) == 1


@given(told_sessions())
def test_the_shortest_start_is_the_least_limit_that_sends_anything(told: Told) -> None:
    least = shortest_start(told.session)
    if least is None:
        assert not plan_session(told.session).requests
    else:
        assert plan_session(told.session, max_context=least).requests
        assert not plan_session(told.session, max_context=least - 1).requests


def test_what_a_cut_request_spawned_is_cut_whole() -> None:
    plan = plan_session(
        session(
            request(0),
            request(1, context_tokens=30, parent=0),
            request(2, agent_id="a", spawned_by=1),
            request(3, agent_id="a", spawned_by=1, parent=2),
            request(4, agent_id="b", spawned_by=3),
            request(5, agent_id="c", spawned_by=0),
        ),
        max_context=20,
    )
    assert [planned.index for planned in plan.requests] == [0, 5]
    assert plan.cut == Cut(lines=3, requests=4, tokens=60)


def test_who_waits_for_a_cut_line_waits_for_what_is_left_of_it() -> None:
    requests = [
        request(0),
        request(1, agent_id="a", spawned_by=0),
        request(2, agent_id="a", spawned_by=0, parent=1, context_tokens=30),
        request(3, agent_id="b", spawned_by=0, context_tokens=30),
        request(4, parent=0, waits_for=(2, 3), think_ms=70),
    ]
    planned = by_index(plan_session(session(*requests), max_context=20))
    assert planned[4].after == (0, 1)
    assert planned[4].think_ms == 70


def test_a_call_that_only_counts_tokens_is_not_sent_and_ends_no_line() -> None:
    plan = plan_session(
        session(
            request(0, sent_ms=0, end_ms=100),
            request(1, kind="count_tokens", parent=0, context_tokens=99, sent_ms=5000, end_ms=5010),
            request(2, parent=1, sent_ms=5030, think_ms=20),
        ),
        max_context=20,
    )
    last = by_index(plan)[2]
    assert (last.parent, last.after) == (0, (0,))
    assert last.think_ms == 4930, "the time before the count is kept too"
    assert plan.cut == Cut(not_generation=1)


def test_a_failed_request_is_load_too() -> None:
    plan = plan_session(session(request(0, status="error", output_tokens=None)))
    assert [planned.output_tokens for planned in plan.requests] == [1]


@pytest.mark.parametrize(
    ("tokens", "in_context", "asked"),
    [(7, 9, 7), (None, 9, 9), (0, 9, 1), (None, None, 1), (None, 0, 1)],
)
def test_output_to_ask_for(tokens: int | None, in_context: int | None, asked: int) -> None:
    only = request(0, output_tokens=tokens, output_context_tokens=in_context)
    assert plan_session(session(only)).requests[0].output_tokens == asked


def test_an_agents_first_request_counts_from_its_spawner() -> None:
    requests = [
        request(0, sent_ms=0, end_ms=40),
        request(1, agent_id="a", spawned_by=0, sent_ms=50, think_ms=10),
    ]
    first = by_index(plan_session(session(*requests)))[1]
    assert (first.parent, first.after, first.think_ms) == (None, (0,), 10)
    assert (first.gap_from, first.gap_ms) == (0, 50)


def test_an_agent_of_unknown_origin_is_anchored_to_the_last_end_before_it() -> None:
    requests = [
        request(0, sent_ms=0, end_ms=40),
        request(1, parent=0, sent_ms=45, end_ms=60),
        request(2, parent=1, sent_ms=70, end_ms=500),
        request(3, agent_id="a", sent_ms=100),
    ]
    first = by_index(plan_session(session(*requests)))[3]
    assert (first.after, first.think_ms) == ((1,), 40)


def test_an_unknown_end_lies_before_the_childs_send() -> None:
    requests = [
        request(0, sent_ms=0),
        request(1, parent=0, sent_ms=45),
        request(2, agent_id="a", sent_ms=100),
    ]
    first = by_index(plan_session(session(*requests)))[2]
    assert (first.after, first.think_ms, first.gap_from, first.gap_ms) == ((0,), None, 0, 100)


def test_with_nothing_to_hold_on_to_an_agent_starts_with_the_session() -> None:
    requests = [request(0, sent_ms=0, end_ms=900), request(1, agent_id="a", sent_ms=100)]
    first = by_index(plan_session(session(*requests)))[1]
    assert (first.after, first.gap_from, first.gap_ms) == ((), None, 100)


def test_a_dependency_on_a_later_request_is_refused() -> None:
    with pytest.raises(ReplayError, match="request 0 depends on request 1, which is not before"):
        plan_session(session(request(0, waits_for=(1,)), request(1)))


@given(told_sessions(), st.none() | st.integers(0, 40))
def test_plans_hold_together(told: Told, limit: int | None) -> None:
    plan = plan_session(told.session, max_context=limit)
    planned = by_index(plan)
    sent = {r.request for r in told.session.requests} - planned.keys()
    counting = [r for r in told.session.requests if r.kind == "count_tokens"]
    assert len(sent) == plan.cut.requests + plan.cut.not_generation
    assert plan.cut.not_generation == len(counting)
    for index, request_ in planned.items():
        assert all(other in planned and other < index for other in request_.after)
        assert request_.parent is None or request_.parent in request_.after
        assert request_.gap_from is None or request_.gap_from in request_.after
        assert limit is None or request_.context_tokens <= limit
        raw = told.session.requests[index]
        named = {*(raw.waits_for or ())} | ({raw.parent} - {None})
        assert set(request_.after) >= named & planned.keys()
        spawner = raw.spawned_by
        generated = spawner is not None and told.session.requests[spawner].kind != "count_tokens"
        assert not generated or spawner in planned
