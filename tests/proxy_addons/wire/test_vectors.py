"""Streams from public bug reports (tests/fixtures/capture/vectors.json)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx.proxy_addons.wire.calls import ModelCall, read_call
from agentx.proxy_addons.wire.encodings import BodyDecoder, decode_body
from agentx.proxy_addons.wire.exchange import Ended
from agentx.proxy_addons.wire.sse import SseDecoder
from tests.captured import exchange
from tests.conftest import ROOT

FILE = ROOT / "tests" / "fixtures" / "capture" / "vectors.json"
VECTORS: dict[str, Any] = {v["id"]: v for v in orjson.loads(Path(FILE).read_bytes())["vectors"]}
RESPONSES = [name for name, v in VECTORS.items() if v["side"] == "response"]
REQUESTS = [name for name, v in VECTORS.items() if v["side"] == "request" and "chunks_b64" in v]
STREAMS = [name for name in RESPONSES if "events" in VECTORS[name]["expected"]]
ENDED: dict[str, Ended] = {
    "eof": "complete",
    "client_disconnect": "client_gone",
    "reset": "upstream_error",
}


def chunks(vector: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(chunk) for chunk in vector["chunks_b64"]]


def call_of(vector: dict[str, Any]) -> ModelCall:
    anthropic = vector["dialect"] == "anthropic"
    call = read_call(
        exchange(
            {"model": "x", "messages": []},
            path="/v1/messages" if anthropic else "/v1/chat/completions",
            status=vector.get("status", 200),
            answer=[(float(at), data) for at, data in enumerate(chunks(vector))],
            answer_headers={
                "content-type": vector["content_type"],
                "content-encoding": vector["content_encoding"],
            },
            ended=ENDED[vector["ended"]],
        )
    )
    assert isinstance(call, ModelCall)
    return call


@pytest.mark.parametrize("name", STREAMS)
def test_events_and_the_tail_that_is_none(name: str) -> None:
    vector = VECTORS[name]
    body, events = BodyDecoder(vector["content_encoding"]), SseDecoder()
    found = [event for chunk in chunks(vector) for event in events.feed(body.feed(chunk))]
    assert [{"event": e.event, "data": e.data.decode()} for e in found] == (
        vector["expected"]["events"]
    )
    assert events.tail() == base64.b64decode(vector["expected"].get("tail_b64", ""))


@pytest.mark.parametrize("name", RESPONSES)
def test_usage_text_error_and_end(name: str) -> None:
    expected = VECTORS[name]["expected"]
    call = call_of(VECTORS[name])
    usage = call.response.usage
    assert {"input": usage.input, "cached": usage.cached, "output": usage.output} == {
        key: expected["usage"][key] for key in ("input", "cached", "output")
    }
    assert usage.cache_write == expected["usage"].get("cache_write")
    text = "".join(b.text or "" for b in call.response.blocks if b.kind == "assistant")
    assert text == expected.get("text", "")
    assert (call.status == "ok") == expected["complete"]
    if "error" in expected:
        assert call.response.error == expected["error"]


def test_an_error_answer_keeps_its_class_and_status() -> None:
    call = call_of(VECTORS["gzip-error-body"])
    assert (call.status, call.response.error) == ("error", "invalid_request_error")


@pytest.mark.parametrize("name", REQUESTS)
def test_request_bodies_with_and_without_their_size(name: str) -> None:
    vector = VECTORS[name]
    data, problem = decode_body(b"".join(chunks(vector)), vector["content_encoding"])
    assert problem is None
    assert orjson.loads(data) == vector["expected"]["body"]


def test_a_body_of_twelve_megabytes_is_read_whole() -> None:
    vector = VECTORS["body-over-10-MiB"]
    parts, expected = vector["generate"], vector["expected"]
    body = (parts["prefix"] + parts["unit"] * parts["times"] + parts["suffix"]).encode()
    assert len(body) == expected["bytes"]
    call = read_call(exchange(body, path="/v1/chat/completions"))
    assert isinstance(call, ModelCall)
    (block,) = call.request.blocks
    assert len(block.text or "") == expected["content_chars"]
