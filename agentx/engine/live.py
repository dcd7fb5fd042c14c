"""The engine in real time: a scheduler whose steps end when the wall clock says so.

Engine time is wall time × speed, from the start. A step is planned at once and booked when its end
has come; where the process is late, steps follow each other without a wait, engine time stays
exact, and what a client is due leaves in one piece.
"""

from __future__ import annotations

import asyncio
import time

from agentx.engine.job import Job
from agentx.engine.scheduler import Scheduler

_SLICE_S = 0.002
"""How long steps that are late may keep the event loop from its connections."""


class Ticket:
    """One client's view of its job."""

    def __init__(self, job: Job, every_token: bool) -> None:
        self.job = job
        self.every_token = every_token
        """Wake at every token; else at the end only."""
        self._news = asyncio.Event()

    @property
    def done(self) -> bool:
        """Whether the last token is there."""
        return self.job.state == "done"

    async def news(self) -> None:
        """Wait until there is something new since the last call."""
        await self._news.wait()
        self._news.clear()

    def notify(self) -> None:
        """Let the waiting side look."""
        if self.every_token or self.done:
            self._news.set()


class LiveEngine:
    """Runs a scheduler against the wall clock; `run` is a task, the rest is called beside it."""

    def __init__(self, scheduler: Scheduler, speed: float = 1.0) -> None:
        self.scheduler = scheduler
        self.speed = speed
        self._origin = time.monotonic()
        self._engine_now = 0.0
        """The end of the latest step."""
        self._arrived = asyncio.Event()
        self._tickets: dict[Job, Ticket] = {}
        self._yielded_at = 0.0

    def now(self) -> float:
        """Engine seconds that have passed, by the wall clock."""
        return self._wall() * self.speed

    def submit(self, job: Job, *, every_token: bool) -> Ticket:
        """Queue a job that arrived at or before `now`."""
        ticket = self._tickets[job] = Ticket(job, every_token)
        self.scheduler.add(job)
        self._arrived.set()
        return ticket

    def close(self, ticket: Ticket) -> None:
        """Forget a ticket; its job is cancelled if it has not ended."""
        del self._tickets[ticket.job]
        self.scheduler.cancel(ticket.job)

    async def run(self) -> None:
        """Run steps until cancelled."""
        while True:
            step = self.scheduler.begin(self._engine_now)
            if step is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            self._engine_now = step.end
            await self._until(step.end / self.speed)
            for job in self.scheduler.finish(step):
                self._tickets[job].notify()

    async def _until(self, wall: float) -> None:
        late = self._wall() >= wall
        # A loop's timers are rounded to milliseconds, down as well as up; a token that came too
        # early would let its reader arrive in the engine's past.
        while (delay := wall - self._wall()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(delay)
        if late and self._wall() - self._yielded_at > _SLICE_S:
            await asyncio.sleep(0)
            late = False
        if not late:
            self._yielded_at = self._wall()

    def _wall(self) -> float:
        return time.monotonic() - self._origin
