"""An engine over real HTTP on a free port of this process, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from agentx.engine.server import EngineServer, EngineSettings

Client = TestClient[Any, Any]


@asynccontextmanager
async def engine_client(**settings: Any) -> AsyncIterator[tuple[Client, EngineServer]]:
    """A client of a new engine; fast, unless `speed` says otherwise."""
    server = EngineServer(EngineSettings(**({"speed": 1000.0} | settings)))
    running = asyncio.create_task(server.live.run())
    try:
        async with TestClient(TestServer(server.app)) as client:
            yield client, server
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled(), running.exception()


async def answer(client: Client, path: str, **fields: Any) -> dict[str, Any]:
    """The document that answers a request that is not streamed."""
    async with client.post(path, json=fields) as response:
        document = await response.json()
        assert response.status == 200, document
        assert isinstance(document, dict)
        return document


async def chat(client: Client, *contents: str, **fields: Any) -> dict[str, Any]:
    """The answer to a conversation whose messages have these contents."""
    roles = ["user", "assistant"] * len(contents)
    messages = [
        {"role": role, "content": content} for role, content in zip(roles, contents, strict=False)
    ]
    return await answer(client, "/v1/chat/completions", messages=messages, **fields)


async def stream(client: Client, path: str, **fields: Any) -> list[bytes]:
    """The data of the events of a streamed answer."""
    async with client.post(path, json=fields | {"stream": True}) as response:
        body = await response.read()
        assert response.status == 200, body
        assert response.content_type == "text/event-stream"
    *events, rest = body.split(b"\n\n")
    assert rest == b""
    assert all(event.startswith(b"data: ") for event in events)
    return [event.removeprefix(b"data: ") for event in events]


async def metrics(client: Client | ClientSession) -> dict[str, float]:
    """Samples by name, with the label that tells them apart where there is one."""
    async with client.get("/metrics") as response:
        assert response.status == 200
        page = await response.text()
    samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            part = sample.labels.get("finished_reason") or sample.labels.get("le")
            samples[sample.name + (f"/{part}" if part else "")] = sample.value
    return samples


def load(event: bytes) -> dict[str, Any]:
    """The JSON object of an event."""
    document = orjson.loads(event)
    assert isinstance(document, dict)
    return document
