"""The canonical token stream against its definition, case by case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.segments import (
    ContextSegment,
    Unseen,
    compact_json,
    marks,
    prefix_breakers,
    segments,
)
from agentx.datasets.trace.tokens import o200k_base
from agentx.proxy_addons.wire import anthropic, chat
from agentx.proxy_addons.wire.content import Block, Media
from agentx.proxy_addons.wire.values import parse_json
from tests.captured import unhurried

PARSERS = {
    "claude-code": anthropic.parse_request,
    "claude-code-forward": anthropic.parse_request,
    "opencode": chat.parse_request,
    "mini-swe-agent": chat.parse_request,
}


def of(*blocks: Block) -> list[tuple[str, str]]:
    return [(segment.kind, segment.text) for segment in segments(blocks)]


def anthropic_segments(**body: Any) -> list[tuple[str, str]]:
    return of(*anthropic.parse_request(body).blocks)


def chat_segments(*messages: Any) -> list[tuple[str, str]]:
    return of(*chat.parse_request({"messages": list(messages)}).blocks)


def check_canonical(agent: str, folder: Path) -> None:
    tokenizer = o200k_base()
    contexts: dict[int, Any] = {}
    entries = [e for e in orjson.loads((folder / "canonical.json").read_bytes())[agent] if e]
    assert entries
    for entry in entries:
        file = folder / agent / f"{entry['index']:02}.json"
        body = orjson.loads(file.read_bytes())["request"]["body"]
        found = list(segments(PARSERS[agent](body).blocks))
        tokens = [tokenizer.segment(segment) for segment in found]
        counts = [[s.kind, len(t)] for s, t in zip(found, tokens, strict=True)]
        assert counts == entry["segments"]
        context = contexts[entry["index"]] = np.concatenate(tokens)
        assert len(context) == entry["context_tokens"]
        if "parent" in entry:
            parent = contexts[entry["parent"]]
            size = min(len(parent), len(context))
            same = parent[:size] == context[:size]
            keep = size if same.all() else int(np.argmin(same))
            assert keep == entry["keep_tokens"]
            assert keep // 16 == entry["keep_blocks_16"]


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_counts_of_the_fixtures(agent: str, fixtures_dir: Path) -> None:
    check_canonical(agent, fixtures_dir / "capture")


@pytest.mark.shared
@pytest.mark.parametrize("agent", ["claude-code-forward", "mini-swe-agent"])
def test_counts_of_more_fixtures(agent: str, shared_dir: Path) -> None:
    check_canonical(agent, shared_dir / "capture")


def test_texts_are_trimmed_and_empty_ones_left_out() -> None:
    assert of(
        Block("user", text=" \n a b\t"), Block("user", text=" \n"), Block("system", text="")
    ) == [("user", "a b")]


def test_a_plain_string_is_one_text_block() -> None:
    plain = anthropic_segments(messages=[{"role": "user", "content": "hi"}])
    listed = anthropic_segments(
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    )
    assert plain == listed == [("user", "hi")]


def test_a_tool_definition_is_its_entry_without_marks_at_its_top() -> None:
    tool = {
        "name": "b",
        "cache_control": {"type": "ephemeral"},
        "description": "d",
        "defer_loading": False,
        "input_schema": {"id": 1, "cache_control": 2},
    }
    assert anthropic_segments(tools=[tool]) == [
        (
            "tool_definition",
            '{"name":"b","description":"d","input_schema":{"id":1,"cache_control":2}}',
        )
    ]


def test_chat_keeps_the_wrapper_of_a_tool() -> None:
    tool = {"type": "function", "function": {"name": "b", "parameters": {}}}
    assert of(*chat.parse_request({"tools": [tool]}).blocks) == [
        ("tool_definition", '{"type":"function","function":{"name":"b","parameters":{}}}')
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, "é"]}, 'x\n{"b":1,"a":[1.0,"é"]}'),
        ('{ "b": 1,\n "a": 2 }', 'x\n{"b":1,"a":2}'),
        ("not JSON ", "x\nnot JSON"),
        (None, "x\n{}"),
        ("", "x"),
        ('{"a":"\\ud800"}', 'x\n{"a":"\\ud800"}'),
        ("const r = 1;\n", "x\nconst r = 1;"),
        ("[" * 300 + "]" * 300, "x\n" + "[" * 300 + "]" * 300),
    ],
)
def test_a_tool_call_is_its_name_and_its_arguments(value: Any, text: str) -> None:
    assert of(Block("tool_call", value=value, name="x", call_id="c")) == [("tool_call", text)]


def test_the_same_call_in_two_dialects_has_one_text() -> None:
    call = {"type": "tool_use", "id": "1", "name": "ls", "input": {"path": "a", "all": True}}
    function = {"name": "ls", "arguments": '{"path": "a", "all": true}'}
    one = anthropic_segments(messages=[{"role": "assistant", "content": [call]}])
    other = chat_segments({"role": "assistant", "tool_calls": [{"id": "2", "function": function}]})
    assert one == other == [("tool_call", 'ls\n{"path":"a","all":true}')]


def test_other_blocks_are_compact_json_without_ids_and_marks() -> None:
    block = {
        "type": "web_search_tool_result",
        "id": "srv_2",
        "tool_use_id": "srv_1",
        "cache_control": {"type": "ephemeral"},
        "content": [{"id": "kept"}],
    }
    assert anthropic_segments(messages=[{"role": "user", "content": [block]}]) == [
        ("other", '{"type":"web_search_tool_result","content":[{"id":"kept"}]}')
    ]


def test_redacted_thinking_and_the_billing_block_are_left_out() -> None:
    found = anthropic_segments(
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"},
            {"type": "text", "text": "you are"},
        ],
        messages=[
            {
                "role": "assistant",
                "content": [
                    {"type": "redacted_thinking", "data": "abc"},
                    {"type": "thinking", "thinking": "", "signature": "abc"},
                    {"type": "thinking", "thinking": "hm", "signature": "abc"},
                ],
            },
            {"role": "user", "content": "x-anthropic-billing-header: what is it?"},
        ],
    )
    assert found == [
        ("system", "you are"),
        ("thinking", "hm"),
        ("user", "x-anthropic-billing-header: what is it?"),
    ]


def test_a_lone_surrogate_counts_as_the_replacement_character() -> None:
    body = parse_json(rb'{"messages":[{"role":"user","content":"cut \ud83d"}]}')
    assert anthropic_segments(**body) == [("user", "cut \ufffd")]


def test_an_image_in_a_result_is_other() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}],
    }
    (segment,) = segments(
        anthropic.parse_request({"messages": [{"role": "user", "content": [result]}]}).blocks
    )
    assert segment.kind == "other"
    assert segment.media is not None


@unhurried
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=15,
    )
)
def test_compact_json_reads_back_and_has_no_blanks_between(value: Any) -> None:
    text = compact_json(value)
    assert orjson.loads(text) == value
    assert text == compact_json(orjson.loads(text))
    assert len(text.encode()) <= len(orjson.dumps(value, option=orjson.OPT_INDENT_2))


# What breaks a prefix though the stream is the same


def unseen(body: dict[str, Any]) -> list[tuple[int, int, str]]:
    return list(marks(list(segments(anthropic.parse_request(body).blocks))))


def conversation(**change: Any) -> dict[str, Any]:
    billing, mark, space, call_id, signature = (
        change.get(name) for name in ("billing", "cache_control", "space", "call_id", "signature")
    )
    thinking = {"type": "thinking", "thinking": "hm", "signature": signature or "s"}
    call: dict[str, Any] = {"type": "tool_use", "id": call_id or "t1", "name": "ls", "input": {}}
    text = {"type": "text", "text": "hi" + (space or "")}
    return {
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: {billing or 1}"},
            {"type": "text", "text": "you are"},
        ],
        "messages": [
            {"role": "user", "content": [{**text, "cache_control": mark} if mark else text]},
            {"role": "assistant", "content": [thinking, call]},
        ],
    }


@pytest.mark.parametrize(
    ("name", "value", "reaches"),
    [
        ("billing", 2, 1),
        ("cache_control", {"type": "ephemeral"}, 2),
        ("space", " ", 2),
        ("signature", "other", 3),
        ("call_id", "t2", 4),
    ],
)
def test_each_breaker_is_named_where_it_is_kept(name: str, value: Any, reaches: int) -> None:
    parent, child = unseen(conversation()), unseen(conversation(**{name: value}))
    assert prefix_breakers(parent, child, 4) == (name,)
    assert prefix_breakers(parent, child, reaches) == (name,)
    assert prefix_breakers(parent, child, reaches - 1) == ()
    assert prefix_breakers(parent, parent, 4) == ()


def test_redacted_thinking_breaks_by_its_data() -> None:
    def hidden(data: str) -> dict[str, Any]:
        block = {"type": "redacted_thinking", "data": data}
        text = {"type": "text", "text": "so"}
        return {"messages": [{"role": "assistant", "content": [block, text]}]}

    assert prefix_breakers(unseen(hidden("a")), unseen(hidden("b")), 1) == ("signature",)


def test_media_are_segments_with_marks() -> None:
    block = Block("other", media=Media(image=True, data="AAAA"), cache_control={"type": "x"})
    (segment,) = segments([block])
    assert segment == ContextSegment(
        "other", "", segment.media, None, Unseen(cache_control='{"type":"x"}')
    )
