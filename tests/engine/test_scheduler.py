"""Scheduling rules, in time that the tests make up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.engine.cache import PrefixCache
from agentx.engine.job import Job
from agentx.engine.scheduler import Limits, Scheduler, Step
from agentx.engine.timing import Timing

BLOCK = 16
TIMING = Timing()


def make_job(tokens: int, output: int, *, arrival: float = 0.0, prompt: str = "a") -> Job:
    """A job whose blocks, output's too, are named after its prompt."""
    blocks = tokens // BLOCK
    return Job(
        arrival=arrival,
        prompt_tokens=tokens,
        output_tokens=output,
        names=[(prompt, index) for index in range(blocks)],
        more_names=iter([(prompt, "out", index) for index in range(output // BLOCK + 1)]),
    )


def make_scheduler(
    capacity: int | None = None, *, running: int = 256, step_tokens: int = 8192
) -> Scheduler:
    return Scheduler(PrefixCache(capacity), TIMING, Limits(running, step_tokens))


def run(scheduler: Scheduler, now: float = 0.0) -> float:
    """Run until nothing is left; returns the time of the end."""
    while (step := scheduler.begin(now)) is not None:
        scheduler.finish(step)
        now = step.end
    return now


def tokens_of(step: Step | None) -> list[int]:
    assert step is not None
    return [tokens for _, tokens in step.work]


def begin(scheduler: Scheduler, now: float = 0.0) -> Step:
    step = scheduler.begin(now)
    assert step is not None
    return step


def test_nobody_there_no_step() -> None:
    assert make_scheduler().begin(0) is None


def test_a_request_alone() -> None:
    scheduler = make_scheduler()
    job = make_job(100, 3, arrival=5.0)
    scheduler.add(job)
    first = begin(scheduler)
    assert first.start == 5.0
    assert first.end == 5.0 + TIMING.step([(100, 0)], 0, 0)
    assert scheduler.finish(first) == [job]
    second = begin(scheduler, first.end)
    assert second.end == first.end + TIMING.step([], 1, 101)
    scheduler.finish(second)
    third = begin(scheduler, second.end)
    assert scheduler.finish(third) == [job]
    assert job.state == "done"
    assert (job.started_at, job.first_token_at, job.last_token_at) == (5.0, first.end, third.end)
    assert scheduler.begin(third.end) is None
    assert scheduler.cache.referenced == 0


def test_a_long_prompt_is_cut_into_chunks_and_others_decode_beside() -> None:
    scheduler = make_scheduler(step_tokens=100)
    first, long, last = make_job(50, 9), make_job(230, 2, prompt="b"), make_job(10, 1, prompt="c")
    scheduler.add(first)
    scheduler.finish(begin(scheduler))
    scheduler.add(long)
    scheduler.add(last)
    seen = []
    for _ in range(3):
        step = begin(scheduler, 1.0)
        seen.append(step.work)
        scheduler.finish(step)
    assert seen == [
        ((first, 1), (long, 99)),
        ((first, 1), (long, 99)),
        ((first, 1), (long, 32), (last, 10)),
    ]
    assert long.generated == last.generated == 1


def test_a_request_that_comes_during_a_step_waits_for_its_end() -> None:
    scheduler = make_scheduler()
    early, late = make_job(100, 5), make_job(100, 5, prompt="b", arrival=0.001)
    scheduler.add(early)
    step = begin(scheduler)
    scheduler.add(late)
    assert [job for job, _ in step.work] == [early]
    scheduler.finish(step)
    following = begin(scheduler, step.end)
    assert [job for job, _ in following.work] == [early, late]
    assert late.started_at == step.end


def test_a_request_of_the_future_waits_though_there_is_room() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_job(10, 200))
    scheduler.add(future := make_job(10, 1, prompt="b", arrival=1.0))
    now = before = 0.0
    while future.state == "waiting":
        before = now
        step = begin(scheduler, now)
        scheduler.finish(step)
        now = step.end
    assert future.started_at is not None
    assert before == future.started_at >= 1.0 > before - 0.01


def test_an_idle_engine_jumps_to_the_next_arrival() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_job(10, 1))
    scheduler.add(future := make_job(10, 1, prompt="b", arrival=7.0))
    run(scheduler)
    assert future.started_at == 7.0


def test_hits_are_whole_blocks_and_the_last_token_is_computed() -> None:
    scheduler = make_scheduler()
    for tokens, cached in ((64, 0), (64, 48), (65, 64), (70, 64), (47, 32), (15, 0)):
        job = make_job(tokens, 1)
        scheduler.add(job)
        run(scheduler)
        assert job.cached_tokens == cached
    assert scheduler.tally.prefix_queries == 64 + 64 + 65 + 70 + 47 + 15
    assert scheduler.tally.prefix_hits == 48 + 64 + 64 + 32
    assert scheduler.tally.prompt_tokens == scheduler.tally.prefix_queries


@pytest.mark.parametrize(("prompt", "output", "cached"), [(32, 33, 64), (32, 32, 48), (30, 35, 64)])
def test_output_is_cached_but_for_its_last_token(prompt: int, output: int, cached: int) -> None:
    """The last token that was generated has no KV: nothing was computed from it."""
    scheduler = make_scheduler()
    scheduler.add(first := make_job(prompt, output))
    run(scheduler)
    again = make_job(0, 1)
    again.prompt_tokens = prompt + output + 5
    again.names = [*first.names, "other"]
    scheduler.add(again)
    run(scheduler)
    assert again.cached_tokens == cached


def test_blocks_under_way_are_no_hits() -> None:
    scheduler = make_scheduler()
    one, two, three = (make_job(160, 2) for _ in range(3))
    scheduler.add(one)
    scheduler.add(two)
    scheduler.finish(begin(scheduler))
    scheduler.add(three)
    run(scheduler)
    assert (one.cached_tokens, two.cached_tokens, three.cached_tokens) == (0, 0, 144)
    # Computed twice, kept once.
    assert scheduler.cache.cached == 10


def test_no_more_run_at_once_than_allowed() -> None:
    scheduler = make_scheduler(running=2)
    jobs = [make_job(10, 2, prompt=str(number)) for number in range(5)]
    for job in jobs:
        scheduler.add(job)
    sizes = []
    while (step := scheduler.begin(0.0)) is not None:
        sizes.append(len(step.work))
        scheduler.finish(step)
    assert sizes == [2, 2, 2, 2, 1, 1]


def test_the_head_of_the_queue_waits_for_blocks_and_nobody_passes() -> None:
    scheduler = make_scheduler(capacity=10)
    running, big, small = make_job(96, 40), make_job(80, 2, prompt="b"), make_job(8, 2, prompt="c")
    for job in (running, big, small):
        scheduler.add(job)
    work = []
    for _ in range(41):
        step = begin(scheduler)
        work.append(tokens_of(step))
        scheduler.finish(step)
    assert work == [[96], *[[1]] * 39, [80, 8]]
    assert scheduler.tally.preemptions == 0


def test_a_decode_without_a_block_preempts_the_youngest() -> None:
    scheduler = make_scheduler(capacity=8)
    old, young = make_job(63, 30), make_job(63, 30, prompt="b")
    scheduler.add(old)
    scheduler.add(young)
    scheduler.finish(begin(scheduler))
    scheduler.finish(begin(scheduler))  # Both blocks are full now.
    third = begin(scheduler)
    assert [job for job, _ in third.work] == [old]
    assert young.state == "waiting"
    assert young.generated == 2
    scheduler.add(later := make_job(10, 1, prompt="c"))
    scheduler.finish(third)
    assert [*scheduler.waiting] == [young, later]
    run(scheduler)
    assert old.generated == young.generated == 30
    assert (old.preemptions, young.preemptions, scheduler.tally.preemptions) == (0, 1, 1)
    # What it found the second time is not counted again.
    assert young.cached_tokens == 0
    assert scheduler.tally.prefix_queries == scheduler.tally.prompt_tokens == 126 + 10
    assert scheduler.tally.generated_tokens == 60 + 1


def test_the_youngest_gives_way_itself() -> None:
    scheduler = make_scheduler(capacity=9)
    old, young = make_job(66, 40), make_job(63, 30, prompt="b")
    scheduler.add(old)
    scheduler.add(young)
    scheduler.finish(begin(scheduler))
    scheduler.finish(begin(scheduler))
    third = begin(scheduler)
    assert [job for job, _ in third.work] == [old]
    assert (young.state, young.preemptions) == ("waiting", 1)


@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_a_cancelled_job_gives_its_blocks_back(steps_before: int) -> None:
    scheduler = make_scheduler(capacity=20)
    job, other = make_job(100, 50), make_job(20, 5, prompt="b")
    scheduler.add(job)
    scheduler.add(other)
    for _ in range(steps_before):
        scheduler.finish(begin(scheduler))
    step = begin(scheduler)
    scheduler.cancel(job)
    scheduler.cancel(job)
    assert scheduler.cache.referenced == len(other.blocks)
    gained = scheduler.finish(step)
    assert gained == [other]
    run(scheduler)
    assert job.state == "cancelled"
    assert job.generated == steps_before
    assert scheduler.cache.referenced == 0
    assert scheduler.tally.finished == {"stop": 0, "length": 1, "abort": 1}


def test_a_cancelled_job_leaves_the_queue() -> None:
    scheduler = make_scheduler(running=1)
    one, two, three = (make_job(10, 2, prompt=str(number)) for number in range(3))
    for job in (one, two, three):
        scheduler.add(job)
    scheduler.cancel(two)
    run(scheduler)
    assert (one.state, two.state, three.state) == ("done", "cancelled", "done")


def test_cancelling_a_blocked_head_lets_the_next_one_in() -> None:
    scheduler = make_scheduler(capacity=10)
    running, big, small = make_job(96, 40), make_job(80, 2, prompt="b"), make_job(8, 2, prompt="c")
    for job in (running, big, small):
        scheduler.add(job)
    scheduler.finish(begin(scheduler))
    scheduler.cancel(big)
    assert tokens_of(begin(scheduler)) == [1, 8]


def test_cleared_under_a_running_job() -> None:
    scheduler = make_scheduler()
    scheduler.add(make_job(64, 40))
    scheduler.finish(begin(scheduler))
    scheduler.clear_cache()
    run(scheduler)
    assert scheduler.cache.cached == 0
    scheduler.add(after := make_job(64, 1))
    scheduler.add(behind := make_job(65, 1, prompt="b"))
    run(scheduler)
    assert after.cached_tokens == behind.cached_tokens == 0
    assert scheduler.cache.cached == 8


def test_preempted_after_a_clear_it_computes_blocks_that_can_be_hit_again() -> None:
    scheduler = make_scheduler(capacity=8)
    old, young = make_job(63, 30), make_job(63, 30, prompt="b")
    scheduler.add(old)
    scheduler.add(young)
    scheduler.finish(begin(scheduler))
    scheduler.clear_cache()
    run(scheduler)
    assert (old.preemptions, young.preemptions) == (0, 1)
    assert len(scheduler.cache.match(old.names)) == 0
    assert len(scheduler.cache.match(young.names)) == (63 + 29) // BLOCK


@dataclass(frozen=True)
class Asked:
    gap: float
    prompt: str
    tokens: int
    output: int
    cancel_after: int | None


Happened: TypeAlias = tuple[float, float, list[int]]
"""A step: its start, its end, and which jobs got a token."""

ASKED = st.builds(
    Asked,
    gap=st.sampled_from([0.0, 0.001, 0.02, 1.0]),
    prompt=st.sampled_from("abc"),
    tokens=st.integers(1, 120),
    output=st.integers(1, 60),
    cancel_after=st.one_of(st.none(), st.none(), st.integers(0, 12)),
)


def play(
    load: Sequence[Asked], capacity: int | None, running: int, step_tokens: int
) -> tuple[list[Happened], Scheduler]:
    """Run a load to its end, checking each step; returns what happened, to be compared."""
    scheduler = make_scheduler(capacity, running=running, step_tokens=step_tokens)
    jobs: list[Job] = []
    arrival = 0.0
    for asked in load:
        arrival += asked.gap
        jobs.append(make_job(asked.tokens, asked.output, arrival=arrival, prompt=asked.prompt))
        scheduler.add(jobs[-1])
    history: list[Happened] = []
    now, count = 0.0, 0
    while (step := scheduler.begin(now)) is not None:
        check_step(scheduler, step, now)
        for job, asked in zip(jobs, load, strict=True):
            if asked.cancel_after == count:
                scheduler.cancel(job)
        gained = scheduler.finish(step)
        history.append((step.start, step.end, [jobs.index(job) for job in gained]))
        now, count = step.end, count + 1
        assert count < 20_000
    for job, asked in zip(jobs, load, strict=True):
        if job.state == "done":
            assert job.generated == asked.output
            assert job.cached_tokens is not None
            assert job.cached_tokens % BLOCK == 0
            assert 0 <= job.cached_tokens < job.prompt_tokens
            assert job.started_at is not None
            assert job.started_at >= job.arrival
        else:
            assert job.state == "cancelled"
            assert asked.cancel_after is not None
    return history, scheduler


def check_step(scheduler: Scheduler, step: Step, now: float) -> None:
    cache = scheduler.cache
    # The oldest never stands still, so that there is always an end.
    assert step.work[0][0] is scheduler.running[0]
    assert step.start >= now
    assert step.end > step.start
    assert sum(tokens_of(step)) <= scheduler.limits.step_tokens
    assert min(tokens_of(step)) > 0
    assert len(scheduler.running) <= scheduler.limits.running
    if cache.capacity is not None:
        assert cache.referenced <= cache.capacity
    held = {block for job in scheduler.running for block in job.blocks}
    assert len(held) == cache.referenced
    # First come, first served, also those that were sent back.
    order = [job.arrival for job in (*scheduler.running, *scheduler.waiting)]
    assert order == sorted(order)
    for job, tokens in step.work:
        assert job.state == "running"
        assert job.arrival <= step.start
        assert job.computed + tokens <= min(job.tokens, len(job.blocks) * BLOCK)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ASKED, min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(12, 40)),
    st.integers(1, 6),
    st.sampled_from([1, 7, 16, 64, 8192]),
)
def test_whatever_comes_the_rules_hold(
    load: list[Asked], capacity: int | None, running: int, step_tokens: int
) -> None:
    history, scheduler = play(load, capacity, running, step_tokens)
    assert not scheduler.running
    assert not scheduler.waiting
    assert scheduler.cache.referenced == 0
    tally = scheduler.tally
    assert sum(tally.finished.values()) == len(load)
    assert tally.generated_tokens == sum(len(gained) for _, _, gained in history)
    assert sum(tally.e2e.counts) == tally.finished["length"]
    assert sum(tally.ttft.counts) + sum(tally.itl.counts) == tally.generated_tokens
    assert tally.prefix_hits <= tally.prefix_queries
    if capacity is None:
        assert tally.preemptions == 0
    # The same load, the same steps.
    assert play(load, capacity, running, step_tokens)[0] == history
