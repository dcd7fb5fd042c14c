"""Reaching a server, and the sentence where that fails."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agentx.replay.endpoint import parse_url
from agentx.replay.errors import ReplayError
from agentx.replay.target import Target, find_target
from agentx.replay.transport import HttpTransport
from tests.replay.fake_server import Call, Handler, ordinary, serving


async def found(url: str, model: str | None = None) -> Target:
    endpoint = parse_url(url)
    async with HttpTransport(endpoint.chat, stall_s=20) as transport:
        return await find_target(transport, endpoint, model)


def with_models(*entries: dict[str, object], metrics: bytes | None = None) -> Handler:
    async def handler(call: Call) -> None:
        if call.path == "/v1/models":
            await call.json(200, {"data": list(entries)})
        elif call.path == "/metrics" and metrics is not None:
            await call.answer(200, metrics, "text/plain")
        else:
            await ordinary(call)

    return handler


async def test_the_only_model_is_taken() -> None:
    async with serving() as server:
        target = await found(server.url)
    assert target.model == "small"
    assert target.server.kind == "openai"
    assert (target.context_limit, target.speed, target.listed) == (None, None, True)


async def test_a_named_model_is_taken_though_the_list_has_others() -> None:
    async with serving() as server:
        target = await found(server.url + "/v1/", "other")
    assert target.model == "other"
    assert target.listed is False


async def test_of_several_models_one_must_be_named() -> None:
    async with serving(with_models({"id": "a"}, {"id": "b"})) as server:
        with pytest.raises(ReplayError, match=r"--model \(a, b\)") as caught:
            await found(server.url)
        assert server.url in str(caught.value)


async def test_what_a_server_says_of_itself_is_kept() -> None:
    entry = {"id": "m", "owned_by": "agentx", "max_model_len": 4096, "agentx": {"speed": 50.0}}
    async with serving(with_models(entry)) as server:
        target = await found(server.url)
    assert target.server.kind == "agentx"
    assert (target.context_limit, target.speed) == (4096, 50)


async def test_metrics_tell_the_engine() -> None:
    handler = with_models({"id": "m"}, metrics=b"sglang:token_usage 0.5\n")
    async with serving(handler) as server:
        assert (await found(server.url)).server.kind == "sglang"


async def test_a_server_that_has_its_api_without_v1() -> None:
    async def handler(call: Call) -> None:
        if call.path == "/api/openai/models":
            await call.json(200, {"data": [{"id": "m"}]})
        else:
            await call.json(404, {})

    async with serving(handler) as server:
        target = await found(server.url + "/api/openai")
        assert target.endpoint.chat == server.url + "/api/openai/chat/completions"


async def test_a_server_without_a_list_is_used_if_the_model_is_named() -> None:
    async def handler(call: Call) -> None:
        await call.json(404, {})

    async with serving(handler) as server:
        target = await found(server.url, "m")
        assert target.listed is None
        assert target.endpoint.chat == server.url + "/v1/chat/completions"
        with pytest.raises(ReplayError, match="--model"):
            await found(server.url)


async def test_html_names_no_model() -> None:
    async def handler(call: Call) -> None:
        await call.answer(200, b"<html>hello</html>", "text/html")

    async with serving(handler) as server:
        with pytest.raises(ReplayError, match="text/html") as caught:
            await found(server.url)
        assert server.url in str(caught.value)


async def test_a_refused_key_says_where_to_put_one() -> None:
    async def handler(call: Call) -> None:
        await call.json(401, {"error": {"message": "no"}})

    async with serving(handler) as server:
        with pytest.raises(ReplayError, match="OPENAI_API_KEY"):
            await found(server.url)


async def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ReplayError, match="cannot be reached") as caught:
            await found(url)
    assert url in str(caught.value)


async def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentx.replay.target.REACH_S", 0.2)

    async def handler(call: Call) -> None:
        await asyncio.sleep(30)

    async with serving(handler) as server:
        with pytest.raises(ReplayError, match=r"no answer within 0\.2 s"):
            await found(server.url)
