from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentx.proxy_addons import writer as writer_module
from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.identities import Pseudonyms
from agentx.proxy_addons.parts import Answered, Chunks, Closed
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.spool import SpoolReader, read_spool
from agentx.proxy_addons.wire.exchange import Chunk, Ended, Exchange, Headers
from agentx.proxy_addons.writer import Closing, ExchangeWriter, Item, Opening, Piece
from tests.proxy_addons.spools import NOW_MS, opened

SECRET = b"a-secret-value"


class Setup:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counters = Counters()
        self.segments = SegmentWriter(folder, lambda: NOW_MS)
        self.writer = ExchangeWriter(self.segments, Pseudonyms(b"k" * 32), self.counters)

    def counted(self) -> tuple[int, dict[str, int], dict[str, int]]:
        counts = self.counters.snapshot()
        return counts["complete"], counts["partial"], counts["lost"]

    def recorded(self) -> list[Exchange]:
        return list(read_spool(self.folder))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path / "spool")


def opening(number: int, body: bytes = b"{}") -> Opening:
    return Opening(opened(number, number, b""), (body[:3], body[3:]), (SECRET,))


def answered(number: int, headers: Headers = ()) -> Answered:
    return Answered(number, 200, headers, 0.5)


def piece(number: int, data: bytes, at_ms: float = 1.0) -> Piece:
    return Piece(number, at_ms, data)


def closing(number: int, ended: Ended = "complete", trouble: str | None = None) -> Closing:
    return Closing(Closed(number, ended, 9.0, 2, 6), trouble)


def whole(number: int) -> list[Item]:
    return [opening(number), answered(number), piece(number, b"answer"), closing(number)]


def test_an_exchange_is_written_with_its_credentials_masked(setup: Setup) -> None:
    body = b'{"key": "' + SECRET + b'", "metadata": {"user_id": "bob"}}'
    setup.writer.write([opening(1, body), answered(1), piece(1, b"data: a-sec")])
    assert setup.recorded()[0].chunks == (Chunk(1.0, b"data: "),)
    setup.writer.write([piece(1, b"ret-value!", 2.0), closing(1)])
    (exchange,) = setup.recorded()
    assert SECRET not in exchange.request_body
    assert b"bob" not in exchange.request_body
    assert exchange.chunks == (
        Chunk(1.0, b"data: "),
        Chunk(1.0, b"*****"),
        Chunk(2.0, b"*********!"),
    )
    assert setup.counted() == (1, {}, {})


def test_what_may_begin_a_credential_is_written_at_the_end(setup: Setup) -> None:
    setup.writer.write([opening(1), piece(1, b"a-secret"), closing(1)])
    assert setup.recorded()[0].chunks == (Chunk(1.0, b"a-secret"),)


def test_encoded_bodies_are_kept_decoded(setup: Setup) -> None:
    packed = gzip.compress(b"data: " + SECRET + b"\n\n")
    request = replace(opened(1, body=b""), headers=(("content-encoding", "gzip"),))
    setup.writer.write(
        [
            Opening(request, (gzip.compress(b'{"user": "bob"}'),), (SECRET,)),
            answered(1, (("content-encoding", "gzip"), ("content-type", "text/event-stream"))),
            piece(1, packed[:15], 1.0),
            piece(1, packed[15:], 2.0),
            closing(1),
        ]
    )
    (exchange,) = setup.recorded()
    assert exchange.request_headers == ()
    assert exchange.request_body.startswith(b'{"user": "')
    assert b"bob" not in exchange.request_body
    assert exchange.response_headers == (("content-type", "text/event-stream"),)
    assert b"".join(chunk.data for chunk in exchange.chunks) == b"data: " + b"*" * 14 + b"\n\n"
    assert setup.counted() == (1, {}, {})


@pytest.mark.parametrize("encoding", ["gzip", "secret-sauce"])
def test_what_cannot_be_looked_into_is_not_kept(setup: Setup, encoding: str) -> None:
    request = replace(opened(1, body=b""), headers=(("content-encoding", encoding),))
    setup.writer.write(
        [Opening(request, (SECRET,), (SECRET,)), answered(1), piece(1, b"x"), closing(1)]
    )
    setup.writer.write(
        [opening(2), answered(2, (("content-encoding", encoding),)), piece(2, SECRET), closing(2)]
    )
    first, second = setup.recorded()
    assert (first.request_body, first.chunks, first.ended) == (b"", (), "proxy_stopped")
    assert b"".join(chunk.data for chunk in second.chunks) == b""
    reason = {"gzip": "damaged_encoding", "secret-sauce": "unknown_encoding"}[encoding]
    assert setup.counted() == (0, {reason: 2}, {})


@pytest.mark.parametrize("ended", ["client_gone", "upstream_error", "proxy_stopped"])
def test_how_an_exchange_ended_is_written_and_counted(setup: Setup, ended: Ended) -> None:
    setup.writer.write([opening(1), closing(1, ended)])
    assert setup.recorded()[0].ended == ended
    assert setup.counted() == (0, {ended: 1}, {})


def test_a_record_that_stops_early_says_so(setup: Setup) -> None:
    setup.writer.write([opening(1), piece(1, b"some"), closing(1, trouble="queue_full")])
    assert setup.recorded()[0].ended == "proxy_stopped"
    assert setup.counted() == (0, {"queue_full": 1}, {})


class Disk:
    """Refuses the frames of the parts that a test names."""

    def __init__(self, setup: Setup, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
        self._encode = setup.segments.encode
        self._append = setup.segments.append
        self._bad: list[bytes] = []
        self._kind = kind
        self.full = True
        monkeypatch.setattr(setup.segments, "encode", self.encode)
        monkeypatch.setattr(setup.segments, "append", self.append)

    def encode(self, part: object) -> bytes:
        frame = self._encode(part)  # type: ignore[arg-type]
        if isinstance(part, self._kind) and part.exchange == 1:  # type: ignore[attr-defined]
            self._bad.append(frame)
        return frame

    def append(self, frames: bytes) -> str | None:
        if self.full and any(frame in frames for frame in self._bad):
            return "disk_full"
        return self._append(frames)


def test_a_request_that_does_not_fit_is_lost_and_others_are_not(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(setup, monkeypatch, type(opened(1)))
    setup.writer.write([*whole(1), *whole(2)])
    setup.writer.write([piece(1, b"late"), closing(1)])
    assert [exchange.exchange_id[-1] for exchange in setup.recorded()] == ["2"]
    assert setup.counted() == (1, {}, {"disk_full": 1})


def test_after_a_hole_nothing_more_of_an_exchange_is_kept(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.writer.write([opening(1), answered(1), piece(1, b"one")])
    disk = Disk(setup, monkeypatch, Chunks)
    setup.writer.write([piece(1, b"two"), *whole(2)])
    disk.full = False
    setup.writer.write([piece(1, b"three"), closing(1)])
    first, second = setup.recorded()
    assert [chunk.data for chunk in first.chunks] == [b"one"]
    assert first.ended == "proxy_stopped"
    assert second.ended == "complete"
    assert setup.counted() == (1, {"disk_full": 1}, {})


def test_a_hole_in_the_batch_of_the_close(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    Disk(setup, monkeypatch, Chunks)
    setup.writer.write([*whole(1), *whole(2)])
    first, second = setup.recorded()
    assert (first.chunks, first.ended) == ((), "proxy_stopped")
    assert second.ended == "complete"
    assert setup.counted() == (1, {"disk_full": 1}, {})


def test_a_removed_spool_costs_what_was_in_flight(setup: Setup) -> None:
    setup.writer.write([*whole(1), opening(2)])
    shutil.rmtree(setup.folder)
    setup.writer.write([closing(2), *whole(3)])
    setup.writer.close()
    assert [exchange.exchange_id[-1] for exchange in setup.recorded()] == ["3"]
    assert setup.counted() == (2, {}, {"spool_removed": 1})


def test_a_removed_spool_is_noticed_without_traffic(setup: Setup) -> None:
    setup.writer.write([opening(1)])
    shutil.rmtree(setup.folder)
    setup.writer.sync()
    assert setup.counted() == (0, {}, {"spool_removed": 1})


def test_our_own_fault_costs_one_exchange(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes, pseudonyms: object) -> bytes:
        if body == b"bad":
            raise RuntimeError("a bug")
        return body

    monkeypatch.setattr(writer_module, "hide_identities", fail)
    setup.writer.write([opening(1, b"bad"), answered(1), *whole(2), closing(1)])
    assert [exchange.exchange_id[-1] for exchange in setup.recorded()] == ["2"]
    assert setup.counted() == (1, {}, {"fault": 1})
    assert setup.counters.snapshot()["faults"] == 1


def test_a_long_answer_is_written_in_pieces_and_read_back_whole(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_FLUSH_BYTES", 100)
    monkeypatch.setattr(writer_module, "_FLUSH_CHUNKS", 7)
    pieces = [piece(1, b"%03d" % number, float(number)) for number in range(300)]
    setup.writer.write([opening(1), *pieces, closing(1)])
    (exchange,) = setup.recorded()
    assert exchange.chunks == tuple(Chunk(item.at_ms, item.data) for item in pieces)


def test_what_is_still_open_at_the_end_is_partial(setup: Setup) -> None:
    setup.writer.write([opening(1)])
    setup.writer.close()
    assert setup.counted() == (0, {"proxy_stopped": 1}, {})
    reader = SpoolReader(setup.folder)
    assert [exchange.ended for exchange in reader.exchanges()] == ["proxy_stopped"]
    assert reader.cuts == []
