"""The SSE decoder against the standard's rules, however the bytes are split."""

from __future__ import annotations

import itertools
import re

from hypothesis import example, given
from hypothesis import strategies as st

from agentx.proxy_addons.wire.sse import SseDecoder, SseEvent
from tests.captured import unhurried

# Pieces that make every rule meet every other one.
PIECES = [
    b"data",
    b"data:",
    b"data: ",
    b"event: ping",
    b"event:",
    b"id: 7",
    b"retry: 10",
    b": comment",
    b" ",
    b"a",
    "北🌍é".encode(),
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    b":",
    b"\xff",
]
streams = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)


def by_the_standard(stream: bytes) -> list[SseEvent]:
    """The standard's algorithm, line by line, over a whole stream."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[SseEvent] = []
    name = b""
    data: list[bytes] = []
    for line in lines[:-1]:  # what follows the last line end is no line
        field, _, value = line.partition(b":")
        if not line:
            if data:
                events.append(
                    SseEvent(name.decode("utf-8", "replace") or "message", b"\n".join(data))
                )
            name, data = b"", []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return events


def feed_split(decoder: SseDecoder, stream: bytes, cuts: list[int]) -> list[SseEvent]:
    borders = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [
        event
        for start, end in itertools.pairwise(borders)
        for event in decoder.feed(stream[start:end])
    ]


@unhurried
@given(streams, st.lists(st.integers(0, 400), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\r\n", [8])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
def test_any_split_gives_the_events_of_the_standard(stream: bytes, cuts: list[int]) -> None:
    assert feed_split(SseDecoder(), stream, cuts) == by_the_standard(stream)


@unhurried
@given(streams)
def test_one_byte_at_a_time(stream: bytes) -> None:
    decoder = SseDecoder()
    events = [event for byte in stream for event in decoder.feed(bytes([byte]))]
    assert events == by_the_standard(stream)


@unhurried
@given(streams, st.integers(1, 20), st.lists(st.integers(0, 400), max_size=12))
def test_a_bound_drops_the_same_events_however_the_stream_is_split(
    stream: bytes, bound: int, cuts: list[int]
) -> None:
    whole, pieces = SseDecoder(bound), SseDecoder(bound)
    assert feed_split(pieces, stream, cuts) == whole.feed(stream)
    assert pieces.close() == whole.close()
    assert pieces.oversized == whole.oversized


def test_a_stream_without_an_end_is_not_kept() -> None:
    decoder = SseDecoder(max_event_bytes=1000)
    for _ in range(100):
        assert decoder.feed(b"x" * 999) == []
        assert sum(map(len, decoder._parts)) <= 1000
    assert decoder.feed(b"\n\ndata: next\n\n") == [SseEvent("message", b"next")]
    assert decoder.oversized == 1


def test_lines_of_one_event_are_joined_and_its_name_kept() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b'event: delta\ndata: {"a":\ndata: 1}\nid: 3\n\n') == [
        SseEvent("delta", b'{"a":\n1}')
    ]


def test_empty_data_is_an_event_and_an_event_without_data_is_none() -> None:
    assert SseDecoder().feed(b"data:\n\ndata: \n\nevent: ping\n\n: hello\n\n") == [
        SseEvent("message", b""),
        SseEvent("message", b""),
    ]


def test_what_the_end_cuts_off_is_handed_out_apart() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\nevent: last\ndata: 2") == [SseEvent("message", b"1")]
    assert decoder.tail() == b"event: last\ndata: 2"
    assert decoder.close() == SseEvent("last", b"2")
    assert decoder.close() is None
