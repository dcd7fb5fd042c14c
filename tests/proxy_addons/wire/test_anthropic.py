"""What an Anthropic request and answer are made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.wire.anthropic import parse_request
from agentx.proxy_addons.wire.anthropic_answer import AnthropicAnswer
from agentx.proxy_addons.wire.content import Block, Usage
from tests.captured import unhurried


def blocks(**body: Any) -> tuple[Block, ...]:
    return parse_request(body).blocks


def kinds(found: tuple[Block, ...]) -> list[str]:
    return [block.kind for block in found]


def test_tools_then_system_then_messages() -> None:
    found = blocks(
        messages=[{"role": "user", "content": "hi"}, {"role": "developer", "content": "be brief"}],
        system=[{"type": "text", "text": "you are"}],
        tools=[{"name": "Bash"}],
    )
    assert kinds(found) == ["tool_definition", "system", "user", "system"]
    assert [block.text for block in found] == [None, "you are", "hi", "be brief"]


def test_calls_and_results_name_their_tool() -> None:
    call, first, image, last = blocks(
        messages=[
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read"}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "cache_control": {"type": "ephemeral"},
                        "content": [
                            {"type": "text", "text": "one"},
                            {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
                            {"type": "text", "text": "two"},
                        ],
                    }
                ],
            },
        ]
    )
    assert (call.kind, call.name, call.call_id) == ("tool_call", "Read", "t1")
    assert (first.kind, first.name, first.call_id) == ("tool_result", "Read", "t1")
    assert image.media is not None
    assert image.name == "Read"
    assert [b.cache_control for b in (first, image, last)] == [None, None, {"type": "ephemeral"}]


def test_a_deferred_tool_counts_before_its_first_reference() -> None:
    reference = {"type": "tool_reference", "tool_name": "late"}
    result = {"type": "tool_result", "tool_use_id": "s", "content": [reference]}
    found = blocks(
        tools=[
            {"name": "now", "defer_loading": False},
            {"name": "late", "defer_loading": True},
            {"name": "never", "defer_loading": True},
        ],
        messages=[{"role": "user", "content": [result, result, {"type": "text", "text": "go"}]}],
    )
    assert kinds(found) == ["tool_definition", "tool_definition", "other", "other", "user"]
    assert [block.name for block in found[:2]] == ["now", "late"]


def test_a_search_by_the_server_loads_its_tools_too() -> None:
    search = {
        "type": "tool_search_tool_result",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "late"}],
        },
    }
    found = blocks(
        tools=[{"name": "late", "defer_loading": True}],
        messages=[{"role": "assistant", "content": [search]}],
    )
    assert kinds(found) == ["tool_definition", "other"]


def test_thinking_keeps_its_signature_apart() -> None:
    open_, hidden = blocks(
        messages=[
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "xyz"},
                ],
            }
        ]
    )
    assert (open_.kind, open_.text, open_.signature) == ("thinking", "hm", "sig")
    assert (hidden.kind, hidden.text, hidden.signature) == ("thinking", "", "xyz")


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        ('{"device_id":"d","session_id":"s-1"}', "s-1"),
        ("user_ab_account_cd_session_0f", "0f"),
        ("somebody", None),
        ("{broken", None),
        (5, None),
    ],
)
def test_a_session_in_the_metadata(user_id: object, session: str | None) -> None:
    assert parse_request({"metadata": {"user_id": user_id}}).body_session == session


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "role", "content", "source", "input", "id", "name", "tools", "x"]
            ),
            inner | st.sampled_from(["text", "tool_use", "tool_result", "image", "assistant"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@unhurried
@given(json_values, json_values, json_values)
def test_no_value_is_too_odd(tools: Any, system: Any, messages: Any) -> None:
    parse_request({"tools": tools, "system": system, "messages": messages, "metadata": system})
    answer = AnthropicAnswer()
    answer.body(messages, 0.0)
    answer.event("content_block_delta", tools, 0.0)
    answer.response()


def stream(*events: dict[str, Any]) -> AnthropicAnswer:
    answer = AnthropicAnswer()
    for at, event in enumerate(events):
        answer.event("message", event, float(at))
    return answer


def test_a_streamed_answer_is_put_together() -> None:
    response = stream(
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"command"'},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": ': "ls"}'},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ).response()
    assert response.blocks == (
        Block("assistant", text="ab"),
        Block("tool_call", value='{"command": "ls"}', name="Bash", call_id="t"),
    )
    assert response.usage == Usage(input=1, output=9)
    assert (response.model, response.stop_reason) == ("m", "tool_use")
    assert response.first_output_ms == 3.0


def test_a_call_that_the_server_makes_itself_is_put_together_as_the_next_request_has_it() -> None:
    def streamed(block: dict[str, Any], pieces: list[str]) -> tuple[Block, ...]:
        delta = {"type": "content_block_delta", "index": 0}
        return (
            stream(
                {"type": "content_block_start", "index": 0, "content_block": block},
                *(
                    {**delta, "delta": {"type": "input_json_delta", "partial_json": p}}
                    for p in pieces
                ),
            )
            .response()
            .blocks
        )

    block = {"type": "mcp_tool_use", "id": "m1", "name": "find", "input": {}, "server_name": "x"}
    whole = {**block, "input": {"query": "a"}}
    assert streamed(block, ['{"query"', ': "a"}']) == (Block("other", value=whole, call_id="m1"),)
    assert streamed(block, ['{"query"']) == (
        Block("other", value={**block, "input": '{"query"'}, call_id="m1"),
    )
    sent = parse_request({"messages": [{"role": "assistant", "content": [whole]}]})
    assert sent.blocks == streamed(block, ['{"query": "a"}'])


def test_a_block_that_begins_empty_is_no_output_yet() -> None:
    def start(kind: str, **rest: str) -> dict[str, Any]:
        block = {"type": kind, **rest}
        return {"type": "content_block_start", "index": 0, "content_block": block}

    delta = {"type": "thinking_delta", "thinking": "hm"}
    thought = stream(
        start("thinking", thinking=""),
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ).response()
    assert (thought.first_output_ms, thought.blocks) == (1.0, (Block("thinking", text="hm"),))
    assert stream(start("text", text="")).response().first_output_ms is None
    assert stream(start("tool_use", name="ls")).response().first_output_ms == 0.0


def test_an_input_count_that_comes_only_at_the_end_counts() -> None:
    response = stream(
        {"type": "message_start", "message": {"usage": {"input_tokens": 0}}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 2},
        },
    ).response()
    assert response.usage == Usage(input=100, cached=30, output=2)


def test_a_whole_answer() -> None:
    answer = AnthropicAnswer()
    answer.body(
        {
            "model": "m",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 3,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 5,
                "output_tokens": 6,
            },
        },
        8.0,
    )
    response = answer.response()
    assert response.blocks == (Block("assistant", text="hi"),)
    assert response.usage == Usage(input=12, cached=4, cache_write=5, output=6)
    assert response.first_output_ms == 8.0
