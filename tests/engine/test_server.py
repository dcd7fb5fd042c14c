"""The engine over HTTP: shapes, limits, cached tokens, cancellation."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from agentx import __version__
from agentx.engine.api import parse_completion
from agentx.engine.prompts import PromptReader
from agentx.engine.server import MAX_BODY, EngineSettings, output_length
from tests.engine.http import answer, chat, engine_client, load, metrics, stream

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = [{"role": "user", "content": "hello dear engine"}]


def cached(document: dict[str, Any]) -> int:
    value = document["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert value == document["agentx"]["cached_tokens"]
    assert isinstance(value, int)
    return value


async def test_a_whole_chat_answer() -> None:
    async with engine_client() as (client, _):
        document = await answer(
            client, CHAT, model="mine", messages=HELLO, max_tokens=5, ignore_eos=True
        )
        again = await answer(client, CHAT, messages=HELLO, max_tokens=5, ignore_eos=True)
    text = document["choices"][0]["message"]["content"]
    own = document.pop("agentx")
    assert document.pop("id").startswith("chatcmpl-")
    assert document.pop("created") > 0
    assert document == {
        "object": "chat.completion",
        "model": "mine",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
    assert len(text.split()) == 5
    assert own["queue_ms"] <= own["ttft_ms"] < own["e2e_ms"]
    assert own["e2e_ms"] == pytest.approx(own["ttft_ms"] + 4 * own["tpot_ms"], abs=0.01)
    assert again["choices"][0]["message"]["content"] == text
    assert again["model"] == "agentx-sim"


async def test_a_whole_text_answer() -> None:
    async with engine_client() as (client, _):
        document = await answer(client, TEXT, prompt="one two", max_tokens=1)
    assert document["id"].startswith("cmpl-")
    assert document["object"] == "text_completion"
    assert document["choices"] == [
        {
            "index": 0,
            "text": document["choices"][0]["text"],
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert document["agentx"]["tpot_ms"] is None


async def test_a_streamed_chat_byte_by_byte() -> None:
    async with engine_client() as (client, _):
        whole = await answer(client, CHAT, messages=HELLO, max_tokens=3, ignore_eos=True)
        events = await stream(
            client,
            CHAT,
            model='m"\0',
            messages=HELLO,
            max_tokens=3,
            ignore_eos=True,
            stream_options={"include_usage": True},
        )
    first = load(events[0])
    head = (
        b'{"id":"%s","object":"chat.completion.chunk","created":%d,"model":"m\\"\\u0000","choices":'
        % (first["id"].encode(), first["created"])
    )
    words = whole["choices"][0]["message"]["content"].encode().split()
    last = load(events[-2])

    def choice(delta: bytes, reason: bytes = b"null") -> bytes:
        return head + b'[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}' % (
            delta,
            reason,
        )

    own = events[-2][events[-2].index(b'"agentx":') :]
    assert events == [
        choice(b'{"role":"assistant","content":""}'),
        choice(b'{"content":"%s"}' % words[0]),
        choice(b'{"content":" %s"}' % words[1]),
        choice(b'{"content":" %s"}' % words[2]),
        choice(b"{}", b'"length"'),
        head
        + b'[],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,'
        + b'"prompt_tokens_details":{"cached_tokens":0}},'
        + own,
        b"[DONE]",
    ]
    assert set(last["agentx"]) == {
        "queue_ms",
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "cached_tokens",
        "preemptions",
    }


async def test_a_streamed_text_without_usage() -> None:
    async with engine_client() as (client, _):
        events = await stream(client, TEXT, prompt=[4, 5, 6], max_tokens=40, ignore_eos=True)
    assert events[-1] == b"[DONE]"
    documents = [load(event) for event in events[:-1]]
    assert len(documents) == 41
    assert len("".join(document["choices"][0]["text"] for document in documents).split()) == 40
    reasons = [document["choices"][0]["finish_reason"] for document in documents]
    assert reasons == [None] * 40 + ["length"]
    assert all("usage" not in document for document in documents)
    assert ["agentx" in document for document in documents] == [False] * 40 + [True]


async def test_a_stream_says_what_a_whole_answer_says() -> None:
    async with engine_client() as (client, _):
        for seed in range(5):
            fields = {"messages": [{"role": "user", "content": f"question {seed}"}]}
            whole = await answer(client, CHAT, **fields)
            events = [load(event) for event in (await stream(client, CHAT, **fields))[:-1]]
            text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
            assert text == whole["choices"][0]["message"]["content"]
            assert events[-1]["choices"][0]["finish_reason"] == "stop"
            assert whole["choices"][0]["finish_reason"] == "stop"
            assert whole["usage"]["completion_tokens"] == len(text.split())


@pytest.mark.parametrize("roles_as_recorded", [True, False])
async def test_three_growing_turns(roles_as_recorded: bool) -> None:
    """Live history hits prompt and output; another answer in its place hits the prompt alone."""
    async with engine_client() as (client, _):
        history = ["word " * 300]
        expected = [0]
        seen = []
        for turn in range(3):
            history[-1] += f" turn {turn} " + "x " * 98
            document = await chat(client, *history, max_tokens=32, ignore_eos=True)
            seen.append(cached(document))
            tokens = document["usage"]["prompt_tokens"]
            text = document["choices"][0]["message"]["content"]
            known = tokens + 31 if roles_as_recorded else tokens
            expected.append(known // 16 * 16)
            history += [text if roles_as_recorded else "other " * 32, ""]
        counts = await metrics(client)
    assert seen == expected[:3]
    assert counts["vllm:prefix_cache_hits_total"] == sum(seen)
    assert counts["vllm:prefix_cache_queries_total"] == counts["vllm:prompt_tokens_total"]
    assert counts["vllm:prompt_tokens_total"] == 400 + 532 + 664


async def test_a_repeated_prompt_computes_its_last_token() -> None:
    async with engine_client() as (client, _):
        found = []
        for words in (400, 400, 401, 401):
            document = await answer(client, TEXT, prompt="w " * words, max_tokens=1)
            found.append(cached(document))
    assert found == [0, 384, 400, 400]


async def test_words_and_ids_share_nothing() -> None:
    async with engine_client() as (client, _):
        await answer(client, TEXT, prompt="1 " * 64, max_tokens=1)
        document = await answer(client, TEXT, prompt=[1] * 64, max_tokens=1)
        again = await answer(client, TEXT, prompt=[1] * 65, max_tokens=1)
    assert (cached(document), cached(again)) == (0, 64)


async def test_chat_and_text_prompts_are_the_same_tokens() -> None:
    async with engine_client() as (client, _):
        await answer(client, TEXT, prompt="a b " * 40, max_tokens=1)
        document = await chat(client, "a b " * 20, "a\nb " * 20, "more", max_tokens=1)
    assert cached(document) == 80


async def test_eviction_is_that_of_an_independent_lru() -> None:
    """A small cache, one request after the other: every count is predicted."""
    blocks = 40
    lru: OrderedDict[tuple[str, ...], None] = OrderedDict()  # The next to be evicted first.
    rng = random.Random(7)
    lines: list[list[str]] = [[f"line{number}"] * 20 for number in range(4)]
    predicted, seen = [], []
    async with engine_client(kv_tokens=blocks * 16 + 5) as (client, _):
        for _ in range(60):
            line = rng.choice(lines)
            if len(line) > 400:
                del line[rng.randrange(20, 200) :]
            line += [f"new{rng.random()}"] * rng.randrange(1, 60)
            output = rng.randrange(1, 40)
            document = await answer(
                client, TEXT, prompt=" ".join(line), max_tokens=output, ignore_eos=True
            )
            seen.append(cached(document))

            hits = 0
            while hits < (len(line) - 1) // 16 and tuple(line[: 16 * (hits + 1)]) in lru:
                hits += 1
            predicted.append(16 * hits)
            line += document["choices"][0]["text"].split()
            computed = len(line) - 1
            for block in range(computed // 16, 0, -1):
                name = tuple(line[: 16 * block])
                lru.pop(name, None)
                lru[name] = None
            while len(lru) + (computed % 16 > 0) > blocks:
                lru.popitem(last=False)
            # The partial block was taken while the request ran, and is free again.
    assert seen == predicted
    assert any(hits == 0 for hits in predicted[10:])
    assert any(hits > 100 for hits in predicted)


async def test_a_small_cache_limits_a_request() -> None:
    async with engine_client(kv_tokens=100) as (client, _):
        async with client.get("/v1/models") as response:
            models = await response.json()
        assert models["data"][0]["max_model_len"] == 96
        whole = await answer(client, TEXT, prompt="w " * 90, max_tokens=6, ignore_eos=True)
        assert whole["usage"]["total_tokens"] == 96
        # No limit named: what fits.
        fits = await answer(client, TEXT, prompt="w " * 90, ignore_eos=True)
        assert fits["usage"]["total_tokens"] <= 96
        for fields in ({"max_tokens": 7}, {"min_tokens": 7}):
            async with client.post(TEXT, json={"prompt": "w " * 90} | fields) as response:
                assert response.status == 400
                error = (await response.json())["error"]
            assert error["code"] == "context_length_exceeded"
            assert "96 tokens" in error["message"]
            assert "97 tokens" in error["message"]
        async with client.post(TEXT, json={"prompt": "w " * 96}) as response:
            assert response.status == 400


async def test_more_requests_than_blocks_are_all_answered() -> None:
    # Slow enough for all to be there before the first one ends.
    async with engine_client(kv_tokens=16 * 30, speed=4) as (client, _):
        fields = {"max_tokens": 100, "ignore_eos": True}
        documents = await asyncio.gather(
            *(answer(client, TEXT, prompt=f"p{n} " * 150, **fields) for n in range(8))
        )
        counts = await metrics(client)
    assert [document["usage"]["completion_tokens"] for document in documents] == [100] * 8
    assert counts["vllm:num_preemptions_total"] > 0
    assert counts["vllm:kv_cache_usage_perc"] == 0
    assert counts["vllm:prompt_tokens_total"] == 8 * 150
    assert counts["vllm:generation_tokens_total"] == 800


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is bound to happen; the test's time limit is the end of it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_goes_is_cancelled_and_its_blocks_are_free(streamed: bool) -> None:
    fields = {"prompt": "w " * 100, "max_tokens": 5000, "ignore_eos": True, "stream": streamed}
    async with engine_client(speed=1, kv_tokens=6000) as (client, server):
        request = asyncio.create_task(client.post(TEXT, json=fields))
        await until(lambda: any(job.generated for job in server.live.scheduler.running))
        if streamed:
            response = await request
            await response.content.readany()
            assert (await metrics(client))["vllm:kv_cache_usage_perc"] > 0
            response.close()
        else:
            request.cancel()
        await until(lambda: not server.live.scheduler.running)
        counts = await metrics(client)
        assert counts["vllm:request_success_total/abort"] == 1
        assert counts["vllm:kv_cache_usage_perc"] == 0
        assert not server.live._tickets
        # What it had computed can be hit.
        after = await answer(client, TEXT, prompt="w " * 100, max_tokens=1)
        assert cached(after) == 96


@pytest.mark.parametrize("speed", [1.0, 50.0])
async def test_own_times_do_not_depend_on_the_speed(speed: float) -> None:
    """One request after the other: engine time is arithmetic, only its rounding may differ."""
    own = []
    async with engine_client(speed=speed) as (client, _):
        for words in (40, 500, 510):
            document = await answer(
                client, TEXT, prompt="w " * words, max_tokens=6, ignore_eos=True
            )
            own.append(document["agentx"])
    timing = EngineSettings().timing
    for (tokens, context), times in zip([(40, 0), (468, 32), (14, 496)], own, strict=True):
        assert times["queue_ms"] == 0
        first = timing.step([(tokens, context)], 0, 0) * 1e3
        assert times["ttft_ms"] == pytest.approx(first, abs=0.002)
        rest = sum(timing.step([], 1, tokens + context + n) for n in range(1, 6)) * 1e3
        assert times["e2e_ms"] == pytest.approx(first + rest, abs=0.002)
        assert times["tpot_ms"] == pytest.approx(rest / 5, abs=0.002)


async def test_engine_time_never_runs_ahead_of_the_wall() -> None:
    """Tokens come when they are due, never before: 20 steps take as long as they say."""
    async with engine_client(speed=1) as (client, server):
        start = server.live.now()
        document = await answer(client, TEXT, prompt="w", max_tokens=20, ignore_eos=True)
        assert server.live.now() - start >= document["agentx"]["e2e_ms"] / 1e3


async def test_reset_prefix_cache() -> None:
    async with engine_client() as (client, _):
        found = []
        for reset in (False, False, True):
            if reset:
                async with client.post("/reset_prefix_cache") as response:
                    assert response.status == 200
            found.append(cached(await answer(client, TEXT, prompt="w " * 33, max_tokens=1)))
        counts = await metrics(client)
    assert found == [0, 32, 0]
    assert counts["vllm:prefix_cache_hits_total"] == 32


async def test_models_health_version_tokenize() -> None:
    async with engine_client(model="other") as (client, _):
        async with client.get("/v1/models") as response:
            models = await response.json()
        assert models["object"] == "list"
        assert models["data"][0]["id"] == "other"
        assert models["data"][0]["max_model_len"] is None
        assert "word" in models["data"][0]["agentx"]["token"]
        async with client.get("/health") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with client.get("/version") as response:
            assert (await response.json())["version"] == __version__
        for fields in (
            {"prompt": " a  b\na"},
            {"messages": [{"role": "user", "content": "a b a"}]},
        ):
            counted = await answer(client, "/tokenize", **fields, return_token_strs=True)
            assert counted["count"] == 3
            assert counted["token_strs"] == ["a", "b", "a"]
            assert counted["tokens"][0] == counted["tokens"][2] != counted["tokens"][1]
            assert "word" in counted["agentx"]["token"]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", CHAT, b"{", {}, 400),
        ("POST", TEXT, b'{"prompt":""}', {}, 400),
        ("POST", "/tokenize", b"{}", {}, 400),
        ("POST", "/tokenize", b'{"prompt":[1,2]}', {}, 400),
        ("POST", "/v1/nothing", b"{}", {}, 404),
        ("GET", CHAT, b"", {}, 405),
        ("POST", CHAT, b" " * (MAX_BODY + 1), {}, 413),
        ("POST", CHAT, b"x", {"Content-Encoding": "gzip"}, 415),
    ],
)
async def test_errors_have_the_shape_of_openai(
    method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    async with engine_client() as (client, _):
        async with client.request(method, path, data=body, headers=headers) as response:
            assert response.status == status
            document = await response.json()
        assert set(document["error"]) == {"message", "type", "param", "code"}
        # And it goes on.
        await answer(client, TEXT, prompt="w", max_tokens=1)


async def test_metrics_under_their_names() -> None:
    async with engine_client(kv_tokens=1600, model="served") as (client, _):
        before = await metrics(client)
        await answer(client, TEXT, prompt="w " * 20, max_tokens=4, ignore_eos=True)
        await answer(client, TEXT, prompt="w " * 40, max_tokens=4, ignore_eos=True)
        after = await metrics(client)
        async with client.get("/metrics") as response:
            page = await response.text()
    assert before.keys() == after.keys()
    assert {name: value for name, value in after.items() if "bucket" not in name} == {
        "vllm:prefix_cache_queries_total": 60,
        "vllm:prefix_cache_hits_total": 16,
        "vllm:prompt_tokens_total": 60,
        "vllm:generation_tokens_total": 8,
        "vllm:num_preemptions_total": 0,
        "vllm:request_success_total/stop": 0,
        "vllm:request_success_total/length": 2,
        "vllm:request_success_total/abort": 0,
        "vllm:num_requests_running": 0,
        "vllm:num_requests_waiting": 0,
        "vllm:kv_cache_usage_perc": 0,
        "vllm:cache_config_info": 1,
        "vllm:time_to_first_token_seconds_count": 2,
        "vllm:time_to_first_token_seconds_sum": after["vllm:time_to_first_token_seconds_sum"],
        "vllm:inter_token_latency_seconds_count": 6,
        "vllm:inter_token_latency_seconds_sum": after["vllm:inter_token_latency_seconds_sum"],
        "vllm:e2e_request_latency_seconds_count": 2,
        "vllm:e2e_request_latency_seconds_sum": after["vllm:e2e_request_latency_seconds_sum"],
    }
    assert after["vllm:inter_token_latency_seconds_bucket/+Inf"] == 6
    assert after["vllm:inter_token_latency_seconds_bucket/0.01"] == 6
    assert after["vllm:inter_token_latency_seconds_bucket/0.005"] == 0
    assert (
        'vllm:cache_config_info{block_size="16",model_name="served",num_gpu_blocks="100"}' in page
    )
    assert 'vllm:prompt_tokens_total{model_name="served"} 60' in page


@pytest.mark.parametrize(
    ("fields", "natural", "limit", "expected"),
    [
        ({}, 50, None, (50, "stop")),
        ({"max_tokens": 51}, 50, None, (50, "stop")),
        ({"max_tokens": 50}, 50, None, (50, "length")),
        ({"max_tokens": 10}, 50, None, (10, "length")),
        ({"min_tokens": 70}, 50, None, (70, "stop")),
        ({"min_tokens": 70, "max_tokens": 70}, 50, None, (70, "length")),
        ({"ignore_eos": True, "max_tokens": 900}, 50, None, (900, "length")),
        ({"ignore_eos": True}, 50, None, (50, "length")),
        ({"ignore_eos": True, "min_tokens": 60}, 50, None, (60, "length")),
        ({}, 50, 43, (40, "length")),
        ({"ignore_eos": True}, 50, 43, (40, "length")),
    ],
)
def test_output_length(
    fields: dict[str, Any], natural: int, limit: int | None, expected: tuple[int, str]
) -> None:
    body = orjson.dumps({"prompt": "a b c"} | fields)
    ask = parse_completion(body, chat=False, reader=PromptReader(), model="m")
    assert output_length(ask, natural, limit) == expected
