from __future__ import annotations

import pytest

from agentx.proxy_addons import live_exchange
from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.live_exchange import Head, LiveExchange
from agentx.proxy_addons.parts import Answered
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.writer import Closing, Item, Opening, Piece
from tests.proxy_addons.spools import NOW_MS

KEY = "sk-ant-api03-0123456789"


class FakeRecorder(Recorder):
    """A queue that nothing is taken from."""

    def __init__(self, room: int = 1000) -> None:
        self.items: list[Item] = []
        self.room = room

    def reserve(self, size: int) -> bool:
        if size > self.room:
            return False
        self.room -= size
        return True

    def release(self, size: int) -> None:
        self.room += size

    def put(self, item: Item, reserved: int) -> None:
        self.items.append(item)


def live(recorder: Recorder, counters: Counters, path: str = "/v1/messages") -> LiveExchange:
    headers = (("X-Api-Key", KEY), ("User-Agent", "agent"), ("X-Else", "x"))
    head = Head("up", "POST", f"{path}?beta=true&key={KEY}", headers, NOW_MS)
    return LiveExchange(3, head, recorder, counters)


def test_an_exchange_from_beginning_to_end() -> None:
    recorder, counters = FakeRecorder(), Counters()
    exchange = live(recorder, counters)
    exchange.request_data(b"ab")
    exchange.request_data(b"c")
    assert recorder.items == []
    exchange.request_done()
    exchange.answered(200, (("Content-Type", "text/event-stream"), ("Set-Cookie", "x")), 1.5)
    exchange.response_data(b"defg", 2.5)
    exchange.end("complete", 3.5)
    exchange.end("client_gone", 4.5)

    opening, answer, piece, closing = recorder.items
    assert isinstance(opening, Opening)
    assert opening.part.exchange == 3
    assert opening.body == (b"ab", b"c")
    assert opening.part.path == "/v1/messages?beta=true&key=redacted"
    assert opening.part.headers == (("user-agent", "agent"),)
    assert KEY.encode() in opening.secrets
    assert answer == Answered(3, 200, (("content-type", "text/event-stream"),), 1.5)
    assert isinstance(piece, Piece)
    assert (piece.at_ms, piece.data) == (2.5, b"defg")
    assert isinstance(closing, Closing)
    assert (closing.part.ended, closing.part.end_ms, closing.trouble) == ("complete", 3.5, None)
    assert (closing.part.request_bytes, closing.part.response_bytes) == (3, 4)
    counts = counters.snapshot()
    assert (counts["requests"], counts["request_bytes"], counts["response_bytes"]) == (1, 3, 4)


def kinds(recorder: FakeRecorder) -> list[type]:
    return [type(item) for item in recorder.items]


def test_an_answer_that_comes_before_the_request_is_whole_is_written_after_it() -> None:
    recorder = FakeRecorder()
    exchange = live(recorder, Counters())
    exchange.request_data(b"a")
    exchange.answered(200, (), 1.0)
    exchange.response_data(b"x", 2.0)
    exchange.request_data(b"b")
    assert recorder.items == []
    exchange.request_done()
    exchange.response_data(b"y", 3.0)
    exchange.end("complete", 4.0)
    assert kinds(recorder) == [Opening, Answered, Piece, Piece, Closing]
    assert isinstance(recorder.items[0], Opening)
    assert recorder.items[0].body == (b"a", b"b")


def test_a_request_that_breaks_off_is_kept_as_far_as_it_came() -> None:
    recorder = FakeRecorder()
    exchange = live(recorder, Counters())
    exchange.request_data(b"half")
    exchange.end("client_gone", 1.0)
    exchange.request_done()
    assert kinds(recorder) == [Opening, Closing]


def test_what_is_no_call_of_a_model_is_kept_without_bodies() -> None:
    recorder = FakeRecorder(room=0)
    exchange = live(recorder, Counters(), "/v1/oauth/token")
    exchange.request_data(b"refresh_token=1")
    exchange.request_done()
    exchange.answered(200, (), 1.0)
    exchange.response_data(b"access_token", 2.0)
    exchange.end("complete", 3.0)
    assert kinds(recorder) == [Opening, Answered, Closing]
    opening, _, closing = recorder.items
    assert isinstance(opening, Opening)
    assert opening.body == ()
    assert isinstance(closing, Closing)
    assert (closing.part.request_bytes, closing.part.response_bytes) == (15, 12)


def test_a_full_queue_loses_a_request_whole() -> None:
    recorder, counters = FakeRecorder(room=5), Counters()
    exchange = live(recorder, counters)
    exchange.request_data(b"1234")
    exchange.request_data(b"5678")
    exchange.request_data(b"9")
    exchange.request_done()
    exchange.answered(200, (), 1.0)
    exchange.response_data(b"x", 2.0)
    exchange.end("complete", 3.0)
    assert recorder.items == []
    assert recorder.room == 5
    assert counters.snapshot()["lost"] == {"queue_full": 1}


def test_a_full_queue_stops_a_response_and_says_so() -> None:
    recorder = FakeRecorder(room=5)
    exchange = live(recorder, Counters())
    exchange.request_done()
    exchange.response_data(b"1234", 1.0)
    exchange.response_data(b"5678", 2.0)
    exchange.response_data(b"9", 3.0)
    exchange.end("complete", 4.0)
    assert kinds(recorder) == [Opening, Piece, Closing]
    closing = recorder.items[-1]
    assert isinstance(closing, Closing)
    assert closing.trouble == "queue_full"
    assert closing.part.response_bytes == 9


def test_bodies_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_exchange, "MAX_BODY", 10)
    recorder, counters = FakeRecorder(), Counters()
    long_request = live(recorder, counters)
    long_request.request_data(bytes(6))
    long_request.request_data(bytes(6))
    long_request.end("complete", 1.0)
    assert counters.snapshot()["lost"] == {"too_large": 1}
    assert (recorder.items, recorder.room) == ([], 1000)

    long_answer = live(recorder, counters)
    long_answer.request_done()
    long_answer.response_data(bytes(6), 1.0)
    long_answer.response_data(bytes(6), 2.0)
    long_answer.end("complete", 3.0)
    closing = recorder.items[-1]
    assert isinstance(closing, Closing)
    assert closing.trouble == "too_large"
