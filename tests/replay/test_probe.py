"""What probes find out, against servers that take, stream and count in different ways."""

from __future__ import annotations

from typing import Any

import pytest

from agentx.replay.counting import Counting, fit
from agentx.replay.endpoint import parse_url
from agentx.replay.errors import ReplayError
from agentx.replay.probe import Probe, probe
from agentx.replay.requests import Form
from agentx.replay.servers import OPENAI
from agentx.replay.target import Target
from agentx.replay.transport import HttpTransport
from tests.replay.fake_server import (
    DONE,
    Call,
    Handler,
    ordinary,
    serving,
    stop,
    text,
    usage,
    words_in,
)


async def probed(handler: Handler, calls: list[Call] | None = None) -> Probe:
    async with serving(handler) as server:
        target = Target(parse_url(server.url), "small", OPENAI, None, None, None)
        try:
            async with HttpTransport(target.endpoint.chat, stall_s=5) as transport:
                return await probe(transport, target, seed=7)
        finally:
            if calls is not None:
                calls.extend(server.calls)


def test_a_body_has_its_options_after_the_messages() -> None:
    body = Form("m", forced=("min_tokens", "ignore_eos")).body([b"[", b"]"], 5)
    assert body == (
        b'{"model":"m","messages":[],"max_tokens":5,"min_tokens":5,"ignore_eos":true,'
        b'"stream":true,"stream_options":{"include_usage":true}}'
    )


def test_an_open_server_is_asked_for_a_length_and_no_more() -> None:
    body = Form('a"b', length_field="max_completion_tokens", usage=False).body([b"[]"], 5)
    assert body == b'{"model":"a\\"b","messages":[],"max_completion_tokens":5,"stream":true}'


async def test_a_server_that_takes_everything() -> None:
    calls: list[Call] = []
    found = await probed(ordinary, calls)
    assert found.form == Form("small", forced=("min_tokens", "ignore_eos"))
    assert found.exact_length
    assert found.cached_reported
    assert found.counting == Counting(1.0, 0.0, 0.0)
    assert found.counting.words_per_token == 1
    roles = [[message["role"] for message in call.document["messages"]] for call in calls]
    assert all(r[0] == "system" and r[-1] == "user" for r in roles)
    prompts = [str(call.document["messages"]) for call in calls]
    assert len(set(prompts)) == len(prompts), "no probe may find another in the cache"


def counting_like(slope: float, overhead: int, per_message: int) -> Handler:
    async def handler(call: Call) -> None:
        document = call.document
        prompt = round(words_in(document) * slope)
        prompt += overhead + per_message * len(document["messages"])
        await call.stream(
            *[text("a ")] * document["max_tokens"],
            stop(),
            usage(prompt, document["max_tokens"]),
            DONE,
        )

    return handler


@pytest.mark.parametrize(
    ("slope", "words_per_token"), [(1.0, 1.0), (1.005, 1.0), (1.25, 0.8), (0.5, 2.0)]
)
async def test_slope_and_template_are_told_apart(slope: float, words_per_token: float) -> None:
    found = await probed(counting_like(slope, 17, 5))
    assert found.counting is not None
    assert found.counting.slope == pytest.approx(slope, abs=0.003)
    assert found.counting.overhead == pytest.approx(17, abs=1)
    assert found.counting.per_message == pytest.approx(5, abs=0.3)
    assert found.counting.words_per_token == pytest.approx(words_per_token, rel=0.005)
    assert not found.cached_reported


@pytest.mark.parametrize("slope", [0.0, 0.002, 0.09, 21.0, 1e6, -1.0])
async def test_counts_of_something_else_are_refused(slope: float) -> None:
    with pytest.raises(ReplayError, match="do not follow the prompt; --no-preflight"):
        await probed(counting_like(slope, 99_999, 0))


def refusing(*names: str, status: int = 400) -> Handler:
    async def handler(call: Call) -> None:
        document: dict[str, Any] = call.document
        for name in names:
            if name in document:
                await call.json(status, {"error": {"message": f"unknown parameter {name}"}})
                return
        asked = document.get("max_tokens") or document["max_completion_tokens"]
        counts = [usage(words_in(document), asked)] if "stream_options" in document else []
        await call.stream(*[text("a")] * asked, stop(), *counts, DONE)

    return handler


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (["min_tokens"], Form("small", forced=("ignore_eos",))),
        (["min_tokens", "ignore_eos"], Form("small")),
        (
            ["min_tokens", "ignore_eos", "max_tokens"],
            Form("small", length_field="max_completion_tokens"),
        ),
        (["min_tokens", "ignore_eos", "stream_options"], Form("small", usage=False)),
    ],
)
async def test_a_strict_server_is_asked_for_less(names: list[str], form: Form) -> None:
    found = await probed(refusing(*names))
    assert found.form == form
    assert (found.counting is None) == (found.exact_length is None) == (not form.usage)


async def test_a_server_that_stops_early_keeps_no_lengths() -> None:
    async def handler(call: Call) -> None:
        await call.stream(text("yes"), stop("stop"), usage(words_in(call.document), 1), DONE)

    found = await probed(handler)
    assert found.exact_length is False


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "OPENAI_API_KEY"), (404, "--model"), (500, "--no-preflight")]
)
async def test_a_server_that_refuses_is_one_sentence(status: int, advice: str) -> None:
    async def handler(call: Call) -> None:
        await call.json(status, {"error": {"message": "nope"}})

    calls: list[Call] = []
    with pytest.raises(ReplayError, match="nope") as caught:
        await probed(handler, calls)
    assert advice in str(caught.value)
    assert "http://127.0.0.1" in str(caught.value)
    assert len(calls) == 1, "only a refused parameter is worth another try"


async def test_a_server_that_does_not_stream_is_one_sentence() -> None:
    async def handler(call: Call) -> None:
        await call.json(200, {"choices": [{"message": {"content": "hi"}}]})

    with pytest.raises(ReplayError, match="whole JSON answer"):
        await probed(handler)


def test_counts_that_are_missing_are_unknown() -> None:
    assert fit([]) is None
    assert fit([{"words": 1, "messages": 1, "prompt_tokens": None}]) is None
