"""What a stream tells, however its bytes are split and whatever the server leaves out."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.replay.measure import StreamError, StreamMeter, cached_tokens, tpot_ms


def frame(document: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"data: " + orjson.dumps(document) + end


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def stop(reason: str = "length") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 64},
    },
}
DONE = b"data: [DONE]\n\n"


def measured(*pieces: bytes) -> StreamMeter:
    """Piece i arrives at second i + 1."""
    meter = StreamMeter()
    for second, piece in enumerate(pieces, start=1):
        meter.feed(float(second), piece)
    meter.close()
    return meter


def test_a_plain_answer() -> None:
    meter = measured(
        frame(delta(role="assistant", content="")),
        frame(delta(content="a")),
        frame(delta(content="b")) + frame(delta(content="c")),
        frame(stop()) + frame(USAGE) + DONE,
    )
    assert meter.first_byte == 1
    assert meter.events == [2, 3, 3]
    assert (meter.prompt_tokens, meter.output_tokens, meter.cached_tokens) == (100, 3, 64)
    assert meter.finish_reason == "length"
    assert meter.finished
    assert meter.error is None
    assert meter.first_event_tokens is None


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x", "content": None},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"refusal": "no"},
    ],
)
def test_output_of_any_kind_counts(fields: dict[str, Any]) -> None:
    assert measured(frame(delta(**fields))).events == [1]


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "reasoning_content": None, "tool_calls": []},
        {},
    ],
)
def test_a_frame_without_output_is_no_event(fields: dict[str, Any]) -> None:
    meter = measured(b": ping\n\n", frame(delta(**fields)), frame(delta(content="x")))
    assert meter.first_byte == 1
    assert meter.events == [3]


def test_a_comment_is_no_progress() -> None:
    meter = measured(frame(delta(role="assistant")), b": ping\n\n")
    assert meter.progressed == 1


def test_a_completion_carries_text_without_a_delta() -> None:
    meter = measured(
        frame({"choices": [{"index": 0, "text": "x", "finish_reason": None}]}),
        frame({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}),
    )
    assert meter.events == [1]
    assert meter.finish_reason == "length"


def test_several_choices_in_a_frame_are_one_event() -> None:
    choices = [{"index": i, "delta": {"content": "x"}} for i in range(3)]
    assert measured(frame({"choices": choices})).events == [1]


def test_usage_may_be_missing_or_null_and_is_then_unknown() -> None:
    meter = measured(frame({**delta(content="x"), "usage": None}), frame(stop()))
    assert (meter.prompt_tokens, meter.output_tokens, meter.cached_tokens) == (None, None, None)


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}, {"cached_tokens": "7"}])
def test_cached_tokens_that_are_not_reported_are_unknown(details: object) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": details}
    meter = measured(frame({"choices": [], "usage": usage}))
    assert meter.prompt_tokens == 5
    assert meter.cached_tokens is None


def test_cached_tokens_of_zero_are_zero() -> None:
    assert cached_tokens({"prompt_tokens_details": {"cached_tokens": 0}}) == 0


def test_other_hosts_put_cached_tokens_elsewhere() -> None:
    assert cached_tokens({"prompt_cache_hit_tokens": 7}) == 7
    assert cached_tokens({"cached_tokens": 8}) == 8


def test_counts_that_come_as_they_grow_tell_the_first_events_tokens() -> None:
    def counted(text: str, tokens: int) -> bytes:
        return frame({**delta(content=text), "usage": {"completion_tokens": tokens}})

    meter = measured(counted("abc", 3), counted("d", 4), frame(USAGE))
    assert meter.first_event_tokens == 3
    assert meter.cached_tokens == 64


@pytest.mark.parametrize(
    ("frame_bytes", "message"),
    [
        (frame({"error": {"message": "out of memory", "code": 500}}), "out of memory"),
        (frame({"error": "gone"}), "gone"),
        (frame({"object": "error", "message": "bad"}), "bad"),
        (b'event: error\ndata: {"message":"cut"}\n\n', "cut"),
        (b"event: error\ndata: plain words\n\n", "plain words"),
    ],
)
def test_an_error_event_is_told(frame_bytes: bytes, message: str) -> None:
    meter = measured(frame(delta(content="x")), frame_bytes)
    assert meter.error is not None
    assert message in meter.error


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 7\n\n", b"data: <html>\n\n"])
def test_an_event_that_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(StreamError, match="JSON"):
        StreamMeter().feed(0, data)


def test_an_event_without_an_end_is_refused() -> None:
    meter = StreamMeter()
    for _ in range(10):
        meter.feed(0, b"data: " + b"x" * 1024 * 1024)
    with pytest.raises(StreamError, match="longer"):
        meter.feed(0, b"\n\n")


def test_the_last_event_needs_no_blank_line() -> None:
    meter = measured(frame(delta(content="x")), b"data: [DONE]")
    assert meter.done


def test_the_engines_own_times_come_along() -> None:
    meter = measured(frame({**USAGE, "agentx": {"ttft_ms": 12.5, "e2e_ms": 99.0}}))
    assert meter.engine == {"ttft_ms": 12.5, "e2e_ms": 99.0}


ANSWER = b"".join(
    [
        b"\xef\xbb\xbf: hello\r\n\r\n",
        frame(delta(role="assistant", content=""), b"\r\n\r\n"),
        frame(delta(content="gr\u00fc\u00df \U0001f30d"), b"\r\n\r\n"),
        b'id: 7\r\ndata: {"choices":\r\ndata: [{"delta":{"content":"y"}}]}\r\n\r\n',
        frame(stop(), b"\n\n"),
        frame(USAGE, b"\n\n"),
        DONE,
    ]
)


@given(st.lists(st.integers(0, len(ANSWER)), max_size=30))
def test_any_split_measures_the_same(cuts: list[int]) -> None:
    borders = sorted({0, len(ANSWER), *cuts})
    meter = measured(*(ANSWER[a:b] for a, b in itertools.pairwise(borders)))
    assert len(meter.events) == 2
    assert (meter.prompt_tokens, meter.output_tokens, meter.cached_tokens) == (100, 3, 64)
    assert meter.done


def test_one_byte_at_a_time() -> None:
    meter = measured(*(bytes([byte]) for byte in ANSWER))
    assert len(meter.events) == 2
    # The event is complete with its blank line's last byte; nothing earlier could be used.
    first_end = ANSWER.index(b"\r\n\r\n", ANSWER.index("gr\u00fc".encode()))
    assert meter.events[0] == first_end + 3


@given(st.binary(max_size=200))
def test_bytes_that_are_anything_measure_or_are_refused(data: bytes) -> None:
    meter = StreamMeter()
    try:
        meter.feed(1.0, data)
        meter.close()
    except StreamError:
        return
    assert meter.events == []


def test_tpot_is_as_defined() -> None:
    assert tpot_ms([10.0, 20.0, 30.0], 5, None) == (5.0, True)
    assert tpot_ms([10.0, 20.0, 30.0], 5, 3) == (10.0, False)
    assert tpot_ms([10.0, 20.0], None, None) == (None, None)
    assert tpot_ms([10.0], 5, None) == (None, None)
    assert tpot_ms([10.0, 20.0], 1, None) == (None, None)
