"""The driver against a transport in memory: order, waiting, limits, and every way to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import orjson
import pytest

from agentx.datasets.errors import DatasetError
from agentx.datasets.trace.model import Agent, Session
from agentx.replay.driver import Driver, Load, Preparation
from agentx.replay.exchange import Exchange
from agentx.replay.requests import Form
from agentx.replay.session import Think
from tests.replay.traces import request

FORM = Form("m", forced=("min_tokens", "ignore_eos"))


class Line:
    """A transport that keeps what it is given, and answers as it is told."""

    def __init__(self, answer: Callable[[Exchange], Awaitable[None]] | None = None) -> None:
        self.bodies: list[Any] = []
        self.flying = 0
        self.most = 0
        self._answer = answer

    async def send(self, body: bytes, exchange: Exchange) -> None:
        exchange.sent = perf_counter()
        self.bodies.append(orjson.loads(body))
        self.flying += 1
        self.most = max(self.most, self.flying)
        try:
            if self._answer is not None:
                await self._answer(exchange)
            else:
                await asyncio.sleep(0)
            exchange.status = 200
            exchange.meter.events.append(perf_counter())
        finally:
            self.flying -= 1
            exchange.end = perf_counter()


def chain(name: str, turns: int, **fields: Any) -> Session:
    """A session of one agent, each request going on from the one before."""
    requests = [
        request(
            index,
            blocks=range(index + 1),
            context_tokens=16 * (index + 1),
            parent=index - 1 if index else None,
            keep_blocks=index if index else None,
            think_ms=0,
            output_tokens=index + 1,
            **fields,
        )
        for index in range(turns)
    ]
    return named(name, Session(name, "test", (Agent(name, "main"),), tuple(requests)))


def named(name: str, session: Session) -> Session:
    requests = tuple(replace(one, session_id=name) for one in session.requests)
    agents = tuple(replace(one, session_id=name) for one in session.agents)
    return replace(session, session_id=name, requests=requests, agents=agents)


class Driven:
    """A driver over sessions in memory, and the rows that it kept."""

    def __init__(
        self,
        sessions: Sequence[Session | Exception],
        line: Line,
        lanes: Sequence[Sequence[int]],
        **options: Any,
    ) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.line = line

        def load(position: int) -> Session:
            session = sessions[position]
            if isinstance(session, Exception):
                raise session
            return session

        think = options.pop("think", Think())
        max_context = options.pop("max_context", None)
        sink = options.pop("sink", self.rows.append)
        self.driver = Driver(
            Load(lanes, think, FORM, exact_length=False, **options),
            Preparation(load, 16, b"salt", 1.0, max_context),
            line,
            sink,
        )

    async def run(self) -> list[tuple[str, int]]:
        """Run to the end; what was sent, in order of the answers."""
        await self.driver.run(perf_counter())
        return self.sent

    @property
    def sent(self) -> list[tuple[str, int]]:
        return [(row["session_id"], row["request"]) for row in self.rows]


async def test_a_session_is_sent_in_order_and_whole() -> None:
    driven = Driven([chain("a", 3)], Line(), [[0]])
    assert await driven.run() == [("a", 0), ("a", 1), ("a", 2)]
    assert driven.driver.sent == 3
    assert driven.driver.sessions_ended == 1
    assert all(row["error"] is None for row in driven.rows)
    for index, body in enumerate(driven.line.bodies):
        assert body["max_tokens"] == body["min_tokens"] == index + 1
        assert body["stream"] is True
        assert body["messages"][-1]["role"] == "user"
        words = sum(len(message["content"].split()) for message in body["messages"])
        assert words == 16 * (index + 1) == driven.rows[index]["words"]


async def test_as_many_sessions_at_once_as_lanes_each_in_its_order() -> None:
    line = Line(lambda _: asyncio.sleep(0.01))
    driven = Driven([chain(name, 2) for name in "abcde"], line, [[0, 2, 4], [1, 3]])
    await driven.run()
    assert line.most == 2
    for lane, names in enumerate(["ace", "bd"]):
        here = [row["session_id"] for row in driven.rows if row["lane"] == lane]
        assert here == [name for name in names for _ in range(2)]


async def test_an_empty_lane_is_no_lane() -> None:
    assert len(await Driven([chain("a", 2)], Line(), [[0], [], []]).run()) == 2


async def test_a_request_waits_for_the_answer_and_its_think_time() -> None:
    session = chain("a", 2)
    first, second = session.requests
    session = replace(session, requests=(first, replace(second, think_ms=80)))
    driven = Driven([session], Line(), [[0]])
    await driven.run()
    before, after = driven.rows
    assert after["intended_ms"] == pytest.approx(before["end_ms"] + 80, abs=0.01)
    assert after["sent_ms"] >= after["intended_ms"]


async def test_subagents_run_beside_each_other() -> None:
    requests = (
        request(0, think_ms=0),
        request(1, agent_id="x", kind="subagent", spawned_by=0, think_ms=0),
        request(2, agent_id="y", kind="subagent", spawned_by=0, think_ms=0),
        request(3, parent=0, keep_blocks=0, waits_for=(1, 2), think_ms=0),
    )
    agents = tuple(Agent("s", name) for name in ("main", "x", "y"))
    both = asyncio.Barrier(2)

    async def answer(exchange: Exchange) -> None:
        if len(line.bodies) in (2, 3):
            await both.wait()  # neither is answered before both were sent

    line = Line(answer)
    driven = Driven([Session("s", "test", agents, requests)], line, [[0]])
    sent = await driven.run()
    assert sent[0] == ("s", 0)
    assert sorted(sent[1:3]) == [("s", 1), ("s", 2)]
    assert sent[3] == ("s", 3)


async def test_the_load_ends_after_so_many_sends() -> None:
    driven = Driven([chain("a", 5), chain("b", 5)], Line(), [[0], [1]], max_requests=4)
    assert len(await driven.run()) == 4
    assert driven.driver.sent == 4
    assert driven.driver.sessions_ended == 0


async def test_what_is_cut_is_counted_and_not_sent() -> None:
    driven = Driven([chain("a", 5)], Line(), [[0]], max_context=40)
    assert await driven.run() == [("a", 0), ("a", 1)]
    assert [cut.requests for cut in driven.driver.cuts] == [3]
    assert driven.driver.sessions_ended == 1


async def test_stopping_sends_nothing_more_and_waits_for_what_flies() -> None:
    go = asyncio.Event()

    async def answer(_: Exchange) -> None:
        driven.driver.stop()
        asyncio.get_running_loop().call_later(0.05, go.set)
        await go.wait()

    driven = Driven([chain("a", 3), chain("b", 3)], Line(answer), [[0, 1]])
    assert await driven.run() == [("a", 0)]
    assert driven.rows[0]["error"] is None


async def test_stopping_wakes_who_waits() -> None:
    session = chain("a", 2)
    first, second = session.requests
    session = replace(session, requests=(first, replace(second, think_ms=3_600_000)))
    rows: list[Mapping[str, Any]] = []

    def sink(row: Mapping[str, Any]) -> None:
        rows.append(row)
        # The request that this one lets go begins to wait before the driver is stopped.
        asyncio.get_running_loop().call_later(0.05, driven.driver.stop)

    driven = Driven([session], Line(), [[0]], sink=sink)
    await driven.run()
    assert [row["request"] for row in rows] == [0]


async def test_abandoning_keeps_a_row_of_what_flew() -> None:
    async def answer(exchange: Exchange) -> None:
        exchange.meter.events.append(perf_counter())
        asyncio.get_running_loop().call_later(0.02, driven.driver.abandon)
        await asyncio.sleep(60)

    driven = Driven([chain("a", 3)], Line(answer), [[0]])
    await driven.run()
    [row] = driven.rows
    assert row["error"] == "cancelled"
    assert row["events"] == 1
    assert row["e2e_ms"] is None
    assert row["end_ms"] is not None


async def test_a_row_that_cannot_be_kept_ends_the_run() -> None:
    def full(_: Mapping[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    driven = Driven([chain("a", 50), chain("b", 50)], Line(), [[0], [1]], sink=full)
    with pytest.raises(OSError, match="No space"):
        await driven.run()
    assert len(driven.line.bodies) <= 2


async def test_a_session_that_cannot_be_read_ends_the_run_and_loses_no_row() -> None:
    async def answer(_: Exchange) -> None:
        await asyncio.sleep(0.02)

    sessions: list[Session | Exception] = [chain("a", 200), DatasetError("damaged")]
    driven = Driven(sessions, Line(answer), [[0], [1]])
    with pytest.raises(DatasetError, match="damaged"):
        await driven.run()
    assert len(driven.rows) == len(driven.line.bodies)


async def test_the_salt_decides_the_words_and_nothing_else_does() -> None:
    lines = [Line(), Line()]
    for line in lines:
        await Driven([chain("a", 4)], line, [[0]]).run()
    assert lines[0].bodies == lines[1].bodies
