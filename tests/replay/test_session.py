from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.replay.errors import ReplayError
from agentx.replay.plan import plan_session
from agentx.replay.session import Due, SessionMachine, Think
from tests.replay.traces import Told, request, session, told_sessions

RECORDED = Think()
NONE = Think.parse("none")


def at(due: list[Due]) -> dict[int, float]:
    return {each.request.index: each.at for each in due}


def test_think_time_counts_from_the_latest_end_of_what_is_waited_for() -> None:
    requests = [
        request(0),
        request(1, agent_id="a", spawned_by=0, think_ms=0),
        request(2, parent=0, waits_for=(1,), think_ms=500),
    ]
    machine = SessionMachine(plan_session(session(*requests)), RECORDED)
    assert at(machine.start(10.0)) == {0: 10.0}
    machine.sent(0, 10.0)
    assert at(machine.ended(0, 12.0)) == {1: 12.0}
    machine.sent(1, 12.0)
    assert not machine.done
    assert at(machine.ended(1, 15.0)) == {2: 15.5}
    machine.sent(2, 15.5)
    machine.ended(2, 16.0)
    assert machine.done


@pytest.mark.parametrize(
    ("think", "ended", "due"),
    [
        (RECORDED, 102.0, 130.0),  # the recorded gap between the sends
        (RECORDED, 145.0, 145.0),  # never before the parent's end
        (NONE, 102.0, 102.0),
        (Think.parse("5"), 102.0, 107.0),
        (Think.parse("5"), 128.0, 130.0),
        (Think(speed=10.0), 101.0, 103.0),
        (Think(cap_s=5.0, speed=10.0), 101.0, 101.5),
    ],
)
def test_unknown_think_time_keeps_the_gap_between_sends(
    think: Think, ended: float, due: float
) -> None:
    requests = [request(0, sent_ms=7000), request(1, parent=0, sent_ms=37000)]
    machine = SessionMachine(plan_session(session(*requests)), think)
    machine.start(90.0)
    machine.sent(0, 100.0)
    assert at(machine.ended(0, ended)) == {1: pytest.approx(due)}


@pytest.mark.parametrize(
    ("think", "wait"),
    [(RECORDED, 8.0), (NONE, 0.0), (Think.parse("3.5"), 3.5), (Think(speed=4.0), 2.0)],
)
def test_how_much_think_time_is_kept(think: Think, wait: float) -> None:
    requests = [request(0), request(1, parent=0, think_ms=8000)]
    machine = SessionMachine(plan_session(session(*requests)), think)
    machine.start(0.0)
    machine.sent(0, 0.0)
    assert at(machine.ended(0, 1.0)) == {1: 1.0 + wait}


def test_with_no_times_at_all_requests_follow_at_once() -> None:
    machine = SessionMachine(plan_session(session(request(0), request(1, parent=0))), RECORDED)
    machine.start(0.0)
    machine.sent(0, 0.0)
    assert at(machine.ended(0, 1.0)) == {1: 1.0}


@pytest.mark.parametrize("text", ["", "fast", "-1", "nan", "inf"])
def test_other_think_times_are_refused(text: str) -> None:
    with pytest.raises(ReplayError, match="'recorded', 'none' or seconds"):
        Think.parse(text)


@given(
    told_sessions(),
    st.none() | st.integers(0, 40),
    st.sampled_from([RECORDED, NONE, Think(0.5), Think(speed=20.0)]),
    st.randoms(use_true_random=False),
)
def test_everything_is_due_once_and_after_what_it_waits_for(
    told: Told, limit: int | None, think: Think, order: random.Random
) -> None:
    plan = plan_session(told.session, max_context=limit)
    machine = SessionMachine(plan, think)
    now = 100.0
    sent: dict[int, float] = {}
    ended: dict[int, float] = {}
    waiting = machine.start(now)
    running: list[int] = []
    while waiting or running:
        assert not machine.done
        now += order.random()
        if waiting and (not running or order.random() < 0.5):
            due = waiting.pop(order.randrange(len(waiting)))
            assert due.request.index not in sent
            assert all(ended[other] <= due.at for other in due.request.after)
            latest = max((ended[other] for other in due.request.after), default=100.0)
            if think.cap_s is not None:
                assert due.at <= latest + think.cap_s + 1e-9
            now = max(now, due.at)
            sent[due.request.index] = now
            machine.sent(due.request.index, now)
            running.append(due.request.index)
        else:
            index = running.pop(order.randrange(len(running)))
            ended[index] = now
            waiting += machine.ended(index, now)
    assert machine.done
    assert ended.keys() == {planned.index for planned in plan.requests}
