"""From exchanges to model calls: what is none, how one ended, when its first output came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agentx.proxy_addons.wire.calls import ModelCall, read_call
from agentx.proxy_addons.wire.exchange import Chunk, Ended
from agentx.proxy_addons.wire.identity import Identity
from tests.captured import exchange, fixture_exchanges

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
STREAM = {"content-type": "text/event-stream"}
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


def chat(**rest: object) -> ModelCall:
    call = read_call(exchange(ASKED, path="/v1/chat/completions", **rest))  # type: ignore[arg-type]
    assert isinstance(call, ModelCall)
    return call


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "/"),
        ("GET", "/v1/models"),
        ("POST", "/api/event_logging/batch"),
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/batches"),
    ],
)
def test_other_paths_are_no_model_calls(method: str, path: str) -> None:
    assert read_call(exchange(ASKED, method=method, path=path)) == "no model call"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\x1f\x8b junk"])
def test_a_request_that_is_no_json_object_is_unreadable(body: bytes) -> None:
    assert read_call(exchange(body)) == "unreadable request"


def test_a_request_in_an_encoding_that_is_not_known_is_unreadable() -> None:
    assert read_call(exchange(b"...", headers={"content-encoding": "lzma"})) == "unreadable request"


@pytest.mark.parametrize(
    ("answer", "ended", "status", "expected"),
    [
        (TEXT + STOP, "complete", 200, "ok"),
        (TEXT + STOP, "client_gone", 200, "ok"),
        (TEXT, "client_gone", 200, "cancelled"),
        (b"", "client_gone", None, "cancelled"),
        (TEXT, "upstream_error", 200, "partial"),
        (TEXT, "proxy_stopped", 200, "partial"),
        (TEXT, "complete", 200, "partial"),
        (b"", "upstream_error", None, "error"),
        (b'data: {"error":{"type":"overloaded"}}\n\n', "complete", 200, "error"),
        (b"busy", "complete", 529, "error"),
    ],
)
def test_how_a_call_ended(answer: bytes, ended: Ended, status: int | None, expected: str) -> None:
    call = chat(answer=answer, answer_headers=STREAM, ended=ended, status=status)
    assert call.status == expected


def test_an_error_without_a_class_is_named_by_its_status() -> None:
    call = chat(
        answer=b"<html>busy</html>", answer_headers={"content-type": "text/html"}, status=503
    )
    assert call.response.error == "http_503"
    assert call.response_problem == "not understood"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"error": {"message": "m", "code": 429}}, 429, "http_429"),
        ({"error": "Bob's key is wrong"}, 401, "http_401"),
        ({"error": {"type": "see https://host/path", "code": "a@b.c"}}, 400, "http_400"),
        ({"error": {"type": None, "code": "context_length_exceeded"}}, 400, None),
        ({"error": {"code": 502, "message": "m"}}, 200, "http_502"),
        ({"error": {"message": "m"}}, 200, "error"),
        ({"detail": "Not found"}, 404, "http_404"),
    ],
)
def test_an_error_is_named_by_its_class_else_by_its_status(
    body: object, status: int, error: str | None
) -> None:
    call = chat(answer=orjson.dumps(body), status=status)
    assert call.status == "error"
    assert call.response.error == (error or "context_length_exceeded")


def test_a_request_that_got_no_answer_is_an_error() -> None:
    call = chat(ended="upstream_error", status=None)
    assert (call.status, call.response.error) == ("error", "upstream_error")
    assert call.response_problem is None
    assert call.request.model == "m"


@pytest.mark.parametrize(
    ("answer", "ended", "problem"),
    [
        # What the recorder could not decode has times and no bytes.
        ([(5.0, b""), (7.0, b"")], "complete", "not kept"),
        ([(5.0, b'{"choices"')], "proxy_stopped", "not kept"),
        ([(5.0, b'{"choices"')], "complete", "not understood"),
    ],
)
def test_an_answer_that_was_not_kept_is_told_from_one_not_understood(
    answer: list[tuple[float, bytes]], ended: Ended, problem: str
) -> None:
    found = exchange(ASKED, path="/v1/chat/completions", ended=ended)
    call = read_call(replace(found, chunks=tuple(Chunk(*piece) for piece in answer)))
    assert isinstance(call, ModelCall)
    assert call.response_problem == problem


def test_the_first_output_has_the_time_of_its_chunk() -> None:
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    call = chat(answer=[(5.0, role), (7.0, TEXT[:9]), (9.0, TEXT[9:])], answer_headers=STREAM)
    assert (call.first_output_ms, call.streamed) == (9.0, True)


def test_usage_in_a_last_event_without_its_blank_line_counts() -> None:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7}}'
    call = chat(answer=TEXT + STOP + usage, answer_headers=STREAM)
    assert call.response.usage.input == 7


def test_an_answer_that_is_not_streamed() -> None:
    body = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    call = chat(answer=orjson.dumps(body), end_ms=30.0)
    assert (call.status, call.first_output_ms, call.streamed) == ("ok", 30.0, False)


def test_an_answer_in_an_unknown_encoding_is_counted_and_the_request_stands() -> None:
    call = chat(answer=TEXT, answer_headers={**STREAM, "content-encoding": "lzma"})
    assert call.response_problem == "unknown encoding"
    assert call.request.model == "m"
    assert call.response.usage.input is None


def test_a_token_count_is_told_apart() -> None:
    call = read_call(
        exchange(ASKED, path="/v1/messages/count_tokens?beta=true", answer=b'{"input_tokens":5}')
    )
    assert isinstance(call, ModelCall)
    assert call.request.count_only
    assert call.response.usage.input == 5
    assert call.status == "ok"


def test_ids_come_from_headers_and_else_from_the_body() -> None:
    headers = {"x-session-id": "child", "x-parent-session-id": "parent"}
    assert chat(headers=headers).identity == Identity("child", None, "parent")
    assert chat().identity == Identity()
    body = {"messages": [], "metadata": {"user_id": '{"session_id":"s"}'}}
    call = read_call(exchange(body, headers={"x-claude-code-agent-id": "a"}))
    assert isinstance(call, ModelCall)
    assert call.identity == Identity("s")


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_usage_of_the_fixtures(agent: str, fixtures_dir: Path) -> None:
    folder = fixtures_dir / "capture"
    expected = orjson.loads((folder / "expected.json").read_bytes())[agent]["requests"]
    for want, found in zip(expected, fixture_exchanges(folder / agent), strict=True):
        call = read_call(found)
        if want["agent"] == "noise":
            assert call == "no model call"
            continue
        assert isinstance(call, ModelCall)
        usage = call.response.usage
        got = {"input": usage.input, "cached": usage.cached, "output": usage.output}
        if "cache_write" in want["usage"]:
            got["cache_write"] = usage.cache_write
        assert got == want["usage"]
        assert call.status == "ok"
        assert call.response_problem is None
        assert (call.identity.parent_session or call.identity.session) == want["session"]
