from __future__ import annotations

import threading
from collections.abc import Iterable

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.writer import Closing, ExchangeWriter, Item, Opening
from tests.proxy_addons.spools import closed, opened


class FakeWriter(ExchangeWriter):
    """Keeps what it is given, and waits where a test wants it to."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.closed = False
        self.go_on = threading.Event()
        self.go_on.set()
        self.writing = threading.Event()
        self.fails = False

    def write(self, items: Iterable[Item]) -> None:
        self.writing.set()
        self.go_on.wait()
        if self.fails:
            raise RuntimeError("a bug")
        self.items += items

    def sync(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def opening(number: int) -> Opening:
    return Opening(opened(number, body=b""), (), ())


def test_items_are_written_in_order_by_the_end() -> None:
    writer = FakeWriter()
    recorder = Recorder(writer, Counters())
    recorder.start()
    for number in range(1000):
        recorder.put(opening(number), 0)
    assert recorder.stop(10)
    assert [item.part.exchange for item in writer.items if isinstance(item, Opening)] == list(
        range(1000)
    )
    assert writer.closed


def test_what_there_is_no_room_for_is_refused_at_once_and_room_comes_back() -> None:
    writer = FakeWriter()
    recorder = Recorder(writer, Counters(), queue_bytes=1000)
    writer.go_on.clear()
    recorder.start()
    assert recorder.reserve(600)
    assert not recorder.reserve(600)
    recorder.release(600)
    assert recorder.reserve(600)
    recorder.put(opening(1), 600)
    assert not recorder.reserve(600)
    # Ends get through all the same, or what is in flight would never be settled.
    recorder.put(Closing(closed(1), None), 0)
    writer.writing.wait()
    writer.go_on.set()
    assert recorder.stop(10)
    assert len(writer.items) == 2
    assert recorder.reserve(900)


def test_a_writer_that_hangs_is_given_up() -> None:
    writer = FakeWriter()
    writer.go_on.clear()
    recorder = Recorder(writer, Counters())
    recorder.start()
    recorder.put(opening(1), 0)
    writer.writing.wait()
    assert not recorder.stop(0.01)
    writer.go_on.set()


def test_a_writer_that_fails_goes_on_with_what_comes_next() -> None:
    writer = FakeWriter()
    counters = Counters()
    writer.fails = True
    recorder = Recorder(writer, counters)
    recorder.start()
    recorder.put(opening(1), 0)
    writer.writing.wait()
    assert recorder.stop(10)
    assert counters.snapshot()["faults"] == 1
    assert writer.closed
