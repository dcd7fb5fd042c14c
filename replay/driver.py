"""Runs a plan: lanes of sessions, each request sent when its session says that it is due.

The session machines decide; the driver gives them a clock and a transport. A closed loop: as many
sessions at once as there are lanes, each replaced when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import Session
from agentx.replay.exchange import Exchange, Transport
from agentx.replay.plan import Cut, PlannedRequest, SessionPlan, plan_session
from agentx.replay.requests import Form
from agentx.replay.rows import Sent, row_of
from agentx.replay.session import Due, SessionMachine, Think
from agentx.replay.text import Prompt, SessionText

RowSink: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Takes a finished request's row; may raise OSError, which ends the run."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a driver."""

    lanes: Sequence[Sequence[int]]
    """Positions of sessions in the data set, by lane, in order."""
    think: Think
    form: Form
    exact_length: bool
    """The server is known to generate as many tokens as asked."""
    max_requests: int | None = None
    """End after so many sends, in all."""


@dataclass(slots=True)
class Prepared:
    """A session that can begin: read, planned, and the texts of its first requests made."""

    plan: SessionPlan
    text: SessionText
    models: Mapping[int, str | None]
    first: dict[int, Prompt]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Makes sessions ready; may run in a thread."""

    load: Callable[[int], Session]
    block_size: int
    salt: bytes
    words_per_token: float
    max_context: int | None

    def __call__(self, position: int) -> Prepared:
        """Read, plan and word the session at a position of the data set."""
        session = self.load(position)
        plan = plan_session(session, max_context=self.max_context)
        text = SessionText(
            session,
            plan,
            block_lists(session),
            block_size=self.block_size,
            salt=self.salt,
            words_per_token=self.words_per_token,
        )
        models = {request.index: session.requests[request.index].model for request in plan.requests}
        first = {
            request.index: text.prompt(request.index)
            for request in plan.requests
            if not request.after
        }
        return Prepared(plan, text, models, first)


class Driver:
    """One load under way. `run` returns when all has ended, or what `stop` left to end has."""

    def __init__(
        self, load: Load, prepare: Callable[[int], Prepared], transport: Transport, sink: RowSink
    ) -> None:
        self._load = load
        self._prepare = prepare
        self._transport = transport
        self._sink = sink
        self._origin = 0.0
        self._waiting: set[asyncio.Task[None]] = set()
        """Requests that are not sent yet."""
        self._flying: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        """Nothing more is sent."""
        self._failure: Exception | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self.sent = 0
        self.sessions_ended = 0
        """Sessions of which every planned request has ended."""
        self.cuts: list[Cut] = []
        """Of each session that began."""

    async def run(self, origin: float) -> None:
        """Send the load. `origin` is the run's start on `time.perf_counter`.

        Whatever ends it early, what was in flight has its row by then.

        Raises:
            OSError: a row could not be kept; what was kept before is whole.
            DatasetError, ReplayError: a session could not be read.
        """
        self._origin = origin
        try:
            async with asyncio.TaskGroup() as group:
                for lane, positions in enumerate(self._load.lanes):
                    if positions:
                        group.create_task(self._lane(lane, positions))
        finally:
            self._executor.shutdown(wait=False, cancel_futures=True)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Send nothing more; what is in flight may end."""
        self._closed.set()
        for task in list(self._waiting):
            task.cancel()

    def abandon(self) -> None:
        """Stop, and end what is in flight as cancelled."""
        self.stop()
        for task in list(self._flying):
            task.cancel()

    async def _lane(self, lane: int, positions: Sequence[int]) -> None:
        """One session after the other; the next is made ready while one runs."""
        loop = asyncio.get_running_loop()
        upcoming = loop.run_in_executor(self._executor, self._prepare, positions[0])
        try:
            for after in (*positions[1:], None):
                prepared = await upcoming
                if self._closed.is_set():
                    return
                if after is not None:
                    upcoming = loop.run_in_executor(self._executor, self._prepare, after)
                await _SessionRun(self, lane, prepared).run()
        except Exception as error:
            self._fail(error)
        finally:
            upcoming.cancel()

    async def _request(self, run: _SessionRun, due: Due) -> None:
        """Wait until a request is due, send it, keep its row, and go on with what it lets go."""
        task = asyncio.current_task()
        assert task is not None
        request = due.request
        if self._closed.is_set():
            return
        self._waiting.add(task)
        try:
            prompt = run.prompt(request.index)
            # The loop's timers have steps of a millisecond and may be early by half of one.
            while (delay := due.at - perf_counter()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(delay)
        finally:
            self._waiting.discard(task)
        if self._closed.is_set():
            return
        self._count_send()
        body = self._load.form.body(prompt.pieces, request.output_tokens)
        sent = Sent(
            session_id=run.plan.session_id,
            planned=request,
            lane=run.lane,
            intended=due.at,
            messages=prompt.messages,
            kept_messages=prompt.kept_messages,
            words=prompt.words,
            body_bytes=len(body),
            model=run.models[request.index],
        )
        exchange = Exchange()
        self._flying.add(task)
        try:
            run.machine.sent(request.index, perf_counter())
            await self._transport.send(body, exchange)
        except asyncio.CancelledError:
            exchange.error, exchange.detail = "cancelled", "the run was stopped"
            return
        finally:
            self._flying.discard(task)
            self._keep(sent, exchange)
        run.go_on(request, exchange)

    def _count_send(self) -> None:
        self.sent += 1
        if self._load.max_requests is not None and self.sent >= self._load.max_requests:
            self.stop()

    def _keep(self, sent: Sent, exchange: Exchange) -> None:
        exact = self._load.exact_length
        try:
            self._sink(row_of(sent, exchange, origin=self._origin, exact_length=exact))
        except OSError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.abandon()


class _SessionRun:
    """One session on its lane."""

    def __init__(self, driver: Driver, lane: int, prepared: Prepared) -> None:
        self._driver = driver
        self.lane = lane
        self.plan = prepared.plan
        self.models = prepared.models
        self.machine = SessionMachine(prepared.plan, driver._load.think)
        self._text = prepared.text
        self._first = prepared.first
        self._group = asyncio.TaskGroup()

    async def run(self) -> None:
        """Run to the end of its last request."""
        self._driver.cuts.append(self.plan.cut)
        async with self._group:
            self._begin(self.machine.start(perf_counter()))
        self._driver.sessions_ended += self.machine.done

    def prompt(self, index: int) -> Prompt:
        """The messages of a request, once."""
        first = self._first.pop(index, None)
        return self._text.prompt(index) if first is None else first

    def go_on(self, request: PlannedRequest, exchange: Exchange) -> None:
        """A request ended: begin what waited for it."""
        assert exchange.end is not None
        self._begin(self.machine.ended(request.index, exchange.end))

    def _begin(self, dues: Sequence[Due]) -> None:
        for due in dues:
            if not self._driver._closed.is_set():
                self._group.create_task(self._driver._request(self, due))
