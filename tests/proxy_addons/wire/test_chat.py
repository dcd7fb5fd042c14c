"""What a Chat Completions request and answer are made of."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from agentx.proxy_addons.wire.chat import ChatAnswer, parse_request
from agentx.proxy_addons.wire.content import Block, Media, Usage
from tests.captured import unhurried
from tests.proxy_addons.wire.test_anthropic import json_values


def blocks(*messages: Any, **body: Any) -> tuple[Block, ...]:
    return parse_request({"messages": list(messages), **body}).blocks


def test_an_assistant_message_is_thinking_then_text_then_calls() -> None:
    found = blocks(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                {"id": "d", "type": "custom", "custom": {"name": "run", "input": "x = 1"}},
            ],
            "content": "text",
            "reasoning_content": "hm",
        },
        {"role": "tool", "tool_call_id": "d", "content": [{"type": "text", "text": "out"}]},
    )
    assert [block.kind for block in found] == [
        "thinking",
        "assistant",
        "tool_call",
        "tool_call",
        "tool_result",
    ]
    assert found[3] == Block("tool_call", value="x = 1", name="run", call_id="d")
    assert found[4] == Block("tool_result", text="out", name="run", call_id="d")


def test_roles_and_tools() -> None:
    tool = {"type": "function", "function": {"name": "bash"}}
    found = blocks(
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "system", "content": "s"},
        {"role": "critic", "content": "c"},
        "odd",
        tools=[tool],
    )
    assert [block.kind for block in found] == [
        "tool_definition",
        "system",
        "user",
        "system",
        "other",
        "other",
    ]
    assert found[0].value == tool
    assert found[0].name == "bash"


def test_media_in_all_their_forms() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,CCCC"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    assert [block.media for block in blocks({"role": "user", "content": parts})] == [
        Media(image=True, data="AAAA"),
        Media(image=True, reference="https://example.test/a.png"),
        Media(image=False, data="BBBB"),
        Media(image=False, data="CCCC"),
        Media(image=False, reference="file-1"),
    ]


@unhurried
@given(json_values, json_values)
def test_no_value_is_too_odd(tools: Any, messages: Any) -> None:
    parse_request({"tools": tools, "messages": messages, "response_format": tools})
    answer = ChatAnswer()
    answer.body(messages, 0.0)
    answer.event("message", tools, 0.0)
    answer.event("message", {"choices": [{"delta": messages}, messages]}, 0.0)
    answer.response()


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def test_a_streamed_answer_is_put_together() -> None:
    answer = ChatAnswer()
    first = {"id": "c1", "function": {"name": "ls", "arguments": ""}}
    second = {"id": "c2", "function": {"name": "cat", "arguments": "{}"}}
    for at, event in enumerate(
        [
            chunk({"role": "assistant", "content": ""}, model="m"),
            chunk({"reasoning_content": "hm"}),
            chunk({"content": "on"}),
            chunk({"content": "e"}),
            chunk({"tool_calls": [{"index": 0, **first}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
            chunk({"tool_calls": [{"index": 1, **second}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
            chunk({}, "tool_calls"),
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}},
        ]
    ):
        answer.event("message", event, float(at))
    response = answer.response()
    assert response.blocks == (
        Block("thinking", text="hm"),
        Block("assistant", text="one"),
        Block("tool_call", value='{"a":1}', name="ls", call_id="c1"),
        Block("tool_call", value="{}", name="cat", call_id="c2"),
    )
    assert response.usage == Usage(input=5, output=4)
    assert (response.model, response.stop_reason) == ("m", "tool_calls")
    assert response.first_output_ms == 1.0


def test_calls_without_an_index_begin_with_their_id() -> None:
    answer = ChatAnswer()
    for call in (
        {"id": "a", "function": {"name": "f", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
    ):
        answer.event("message", chunk({"tool_calls": [call]}), 0.0)
    assert [(b.call_id, b.value) for b in answer.response().blocks if b.kind == "tool_call"] == [
        ("a", "{}"),
        ("b", "{}"),
    ]


def test_usage_that_counts_up_is_no_count_of_an_unfinished_answer() -> None:
    answer = ChatAnswer()
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    answer.event("message", chunk({"content": "a"}, usage=usage), 0.0)
    assert answer.response().usage == Usage(input=9, cached=8)
    answer.event("message", chunk({}, "stop", usage={**usage, "completion_tokens": 2}), 0.0)
    assert answer.response().usage.output == 2


def test_errors_keep_their_class_only() -> None:
    answer = ChatAnswer()
    answer.body({"error": {"message": "key sk-1 is wrong", "type": "invalid_api_key"}}, 0.0)
    assert answer.response().error == "invalid_api_key"
    answer = ChatAnswer()
    answer.event("message", {"error": "it broke"}, 0.0)
    assert answer.response().error == "error"
