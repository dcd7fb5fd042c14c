"""Continuous batching with chunked prefill, over a prefix cache, in time that is passed in.

The rules, in the order in which a step is planned:

1. Running requests, first come first served. One that decodes takes one token of the step's
   budget; the one whose prefill is under way takes what is left. (It is always the youngest: a
   prompt cut by the budget leaves nothing for a later one.)
2. A decoding request that needs a block when all are referenced preempts the youngest running
   request (itself, if it is the youngest), which goes back to the head of the queue and computes
   its tokens again later, less what the cache still has.
3. While there is budget, the head of the queue is let in if the blocks of its whole prompt can be
   had; nobody passes it. (One that was just preempted finds one block less than it needs.) Its hits
   are whole cached blocks, and its last token is always computed.

Blocks can be hit once the step that computed them has finished.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agentx.engine.cache import PrefixCache
from agentx.engine.job import Job
from agentx.engine.tally import Tally
from agentx.engine.timing import Timing


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a step."""

    running: int = 256
    """Requests that run at once."""
    step_tokens: int = 8192
    """Tokens computed in a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One planned step: who computes how many tokens, from `start` to `end` (engine seconds)."""

    start: float
    end: float
    work: tuple[tuple[Job, int], ...]


class Scheduler:
    """Plans steps (`begin`) and books them when their time is over (`finish`), in turn.

    Jobs are added in the order of their arrival. Between the two calls jobs may be added and
    cancelled; they take no part in the step under way, or no longer.
    """

    def __init__(self, cache: PrefixCache, timing: Timing, limits: Limits | None = None) -> None:
        self.cache = cache
        self.timing = timing
        self.limits = limits or Limits()
        self.tally = Tally()
        self.running: list[Job] = []
        """In the order in which they were let in."""
        self.waiting: deque[Job] = deque()
        self._step: Step | None = None
        self._blocked: tuple[Job, int] | None = None
        """The head that found no room, and the cache's releases at that time."""

    def fits(self, tokens: int) -> bool:
        """Whether a request of `tokens`, prompt and output together, can ever run."""
        capacity = self.cache.capacity
        return capacity is None or tokens <= capacity * self.cache.block_size

    def add(self, job: Job) -> None:
        """Queue a job that `fits`; it may arrive later than the step under way, or the next."""
        assert self.fits(job.prompt_tokens + job.output_tokens)
        assert job.prompt_tokens > 0 < job.output_tokens
        self.waiting.append(job)

    def cancel(self, job: Job) -> None:
        """Take a job out wherever it is, and release its blocks; nothing if it has ended."""
        if job.state == "waiting":
            self.waiting.remove(job)
        elif job.state == "running":
            self.running.remove(job)
            self._give_back(job)
        else:
            return
        job.state = "cancelled"
        self.tally.finished["abort"] += 1

    def clear_cache(self) -> None:
        """Forget every cached prefix; what runs goes on, and its blocks are not found again."""
        self.cache.clear()
        for job in self.running:
            job.nameable = False

    def begin(self, now: float) -> Step | None:
        """Plan the next step; None when nobody is there.

        It starts at `now`, or at the next arrival where nothing runs or waits before it.
        """
        assert self._step is None, "finish() the step under way first"
        if not self.running:
            if not self.waiting:
                return None
            now = max(now, self.waiting[0].arrival)
        work = self._continue_running()
        self._admit(now, work)
        self._step = Step(now, now + self._duration(work), tuple(work))
        return self._step

    def finish(self, step: Step) -> list[Job]:
        """Book the step that has ended; returns the jobs that got a token from it.

        Those whose `state` is "done" got their last one.
        """
        assert step is self._step
        self._step = None
        gained: list[Job] = []
        for job, tokens in step.work:
            if job.state != "running":
                continue
            job.computed += tokens
            self._publish(job)
            if job.computed == job.tokens:
                self._generate(job, step.end)
                gained.append(job)
        if any(job.state == "done" for job in gained):
            self.running = [job for job in self.running if job.state == "running"]
        return gained

    def _continue_running(self) -> list[tuple[Job, int]]:
        budget = self.limits.step_tokens
        size = self.cache.block_size
        work: list[tuple[Job, int]] = []
        # The list may get shorter behind the job at hand, or lose it.
        for job in self.running:
            if not budget:
                break
            tokens = min(job.tokens - job.computed, budget)
            if job.computed + tokens > len(job.blocks) * size and not self._grow(job):
                break
            work.append((job, tokens))
            budget -= tokens
        return work

    def _grow(self, job: Job) -> bool:
        """One more block for a decoding job; False if the job had to give way itself."""
        while (blocks := self.cache.claim([], 1)) is None:
            youngest = self.running.pop()
            self._give_back(youngest)
            youngest.state = "waiting"
            youngest.nameable = True
            youngest.preemptions += 1
            self.tally.preemptions += 1
            self.waiting.appendleft(youngest)
            if youngest is job:
                return False
        job.blocks += blocks
        return True

    def _admit(self, now: float, work: list[tuple[Job, int]]) -> None:
        budget = self.limits.step_tokens - sum(tokens for _, tokens in work)
        while budget and self.waiting and len(self.running) < self.limits.running:
            job = self.waiting[0]
            if job.arrival > now or not self._seat(job):
                break
            self.waiting.popleft()
            self.running.append(job)
            job.state = "running"
            if job.started_at is None:
                job.started_at = now
                job.cached_tokens = job.computed
                self.tally.prefix_queries += job.prompt_tokens
                self.tally.prefix_hits += job.computed
            tokens = min(job.tokens - job.computed, budget)
            work.append((job, tokens))
            budget -= tokens

    def _seat(self, job: Job) -> bool:
        """Give the head of the queue the blocks of all its tokens, cached ones where there are."""
        if self._blocked == (job, self.cache.releases):
            return False
        size = self.cache.block_size
        hits = self.cache.match(job.names, limit=(job.tokens - 1) // size)
        blocks = self.cache.claim(hits, -(-job.tokens // size) - len(hits))
        if blocks is None:
            self._blocked = (job, self.cache.releases)
            return False
        job.blocks = blocks
        job.published = len(hits)
        job.computed = len(hits) * size
        return True

    def _publish(self, job: Job) -> None:
        full = job.computed // self.cache.block_size
        if full == job.published:
            return
        if job.nameable:
            while len(job.names) < full:
                job.names.append(next(job.more_names, None))
            self.cache.publish(job.blocks, job.names, job.published, full)
        job.published = full

    def _generate(self, job: Job, now: float) -> None:
        tally = self.tally
        job.generated += 1
        tally.generated_tokens += 1
        if job.last_token_at is None:
            job.first_token_at = now
            tally.prompt_tokens += job.prompt_tokens
            tally.ttft.observe(now - job.arrival)
        else:
            tally.itl.observe(now - job.last_token_at)
        job.last_token_at = now
        if job.generated == job.output_tokens:
            self._give_back(job)
            job.state = "done"
            tally.finished[job.finish_reason] += 1
            tally.e2e.observe(now - job.arrival)

    def _give_back(self, job: Job) -> None:
        self.cache.release(job.blocks)
        job.blocks = []

    def _duration(self, work: list[tuple[Job, int]]) -> float:
        prefill: list[tuple[int, int]] = []
        decoding = context = 0
        for job, tokens in work:
            if tokens == 1 and job.generated:
                decoding += 1
                context += job.computed + 1
            else:
                prefill.append((tokens, job.computed))
        return self.timing.step(prefill, decoding, context)
