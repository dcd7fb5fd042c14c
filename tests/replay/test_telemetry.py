"""What is watched beside the requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from agentx.replay.servers import OPENAI, VLLM
from agentx.replay.telemetry import Telemetry, peak_rss_mb, rss_mb
from agentx.replay.transport import HttpTransport
from tests.replay.fake_server import Call, serving


async def test_counters_are_read_before_during_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx.replay.telemetry.EVERY_S", 0.05)
    scraped = asyncio.Event()

    async def handler(call: Call) -> None:
        if len(server.calls) == 3:
            scraped.set()
        page = f"vllm:prefix_cache_queries_total {len(server.calls)}\n"
        await call.answer(200, page.encode(), "text/plain")

    rows: list[Mapping[str, Any]] = []
    async with serving(handler) as server, HttpTransport(server.url, stall_s=5) as transport:
        watch = Telemetry(transport, server.url + "/metrics", VLLM, rows.append)
        await watch.start()
        await scraped.wait()
        await watch.stop()
    values = [row["value"] for row in rows if row["source"] == "server"]
    assert watch.before == {"vllm:prefix_cache_queries_total": 1}
    assert watch.after["vllm:prefix_cache_queries_total"] == len(server.calls)
    assert values == sorted(values)
    assert len(values) >= 3
    assert {row["name"] for row in rows if row["source"] == "client"} >= {"cpu_s", "loop_lag_ms"}
    assert all(row["t_ms"] >= 0 for row in rows)


async def test_a_server_without_metrics_is_not_asked_for_any() -> None:
    async with serving() as server, HttpTransport(server.url, stall_s=5) as transport:
        watch = Telemetry(transport, server.url + "/metrics", OPENAI, lambda row: None)
        await watch.start()
        await watch.stop()
        assert server.calls == []
    assert watch.before == watch.after == {}


async def test_a_metrics_page_that_is_gone_is_no_reading() -> None:
    rows: list[Mapping[str, Any]] = []
    async with serving() as server, HttpTransport(server.url, stall_s=5) as transport:
        watch = Telemetry(transport, server.url + "/metrics", VLLM, rows.append)
        await watch.start()
        server.die()
        await watch.stop()
    assert watch.after == {}
    assert {row["source"] for row in rows} == {"client"}


async def test_a_loop_that_was_held_up_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx.replay.telemetry.LAG_EVERY_S", 0.01)
    async with serving() as server, HttpTransport(server.url, stall_s=5) as transport:
        watch = Telemetry(transport, server.url, OPENAI, lambda row: None)
        await watch.start()
        await asyncio.sleep(0.05)
        time.sleep(0.2)  # noqa: ASYNC251
        await asyncio.sleep(0.05)
        await watch.stop()
    assert max(watch.lags_ms) > 150


def test_memory_is_told() -> None:
    now = rss_mb()
    assert now is None or 1 < now <= peak_rss_mb() * 1.01
