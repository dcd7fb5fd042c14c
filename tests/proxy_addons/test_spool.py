from __future__ import annotations

import struct
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons import spool
from agentx.proxy_addons.errors import CaptureError
from agentx.proxy_addons.frames import HEADER_SIZE
from agentx.proxy_addons.parts import Part
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.spool import SpoolReader, read_spool
from agentx.proxy_addons.wire.exchange import Chunk, Exchange
from tests.proxy_addons.spools import (
    NOW_MS,
    any_part,
    chunk,
    closed,
    opened,
    unhurried,
    whole,
    write,
)


def ids(exchanges: list[Exchange]) -> list[int]:
    return [int(exchange.exchange_id.rpartition("-")[2]) for exchange in exchanges]


def test_an_exchange_comes_back(tmp_path: Path) -> None:
    said = whole(5)
    said[3:3] = [chunk(5, b" more", 2.5)]
    path = write(tmp_path, said)
    (exchange,) = read_spool(tmp_path)
    assert exchange == Exchange(
        exchange_id=f"{path.name.split('-')[1]}-5",
        upstream="up",
        method="POST",
        path="/v1/messages",
        request_headers=(("a", "b"),),
        request_body=b"{}",
        opened_ms=NOW_MS,
        status=200,
        response_headers=(("content-type", "text/event-stream"),),
        chunks=(Chunk(1.0, b"answer"), Chunk(2.5, b" more")),
        ended="complete",
        end_ms=9.0,
    )


def test_order_is_that_of_opening_and_what_has_no_close_ended_with_the_proxy(
    tmp_path: Path,
) -> None:
    one, two, three = whole(1, 0), whole(2, 10), whole(3, 20)
    write(tmp_path, [one[0], two[0], three[0], *three[1:], *two[1:-1], *one[1:]])
    exchanges = list(read_spool(tmp_path))
    assert ids(exchanges) == [1, 2, 3]
    assert [exchange.ended for exchange in exchanges] == ["complete", "proxy_stopped", "complete"]
    assert exchanges[1].end_ms is None
    assert exchanges[1].chunks == (Chunk(1.0, b"answer"),)


def test_a_request_that_was_whole_later_than_the_next_keeps_its_place(tmp_path: Path) -> None:
    one, two = whole(1, 0), whole(2, 10)
    write(tmp_path, [two[0], *one[:-1], *two[1:], one[-1]])
    assert ids(list(read_spool(tmp_path))) == [1, 2]


def test_an_opening_alone_is_an_exchange(tmp_path: Path) -> None:
    write(tmp_path, [opened(1)])
    (exchange,) = read_spool(tmp_path)
    assert (exchange.status, exchange.chunks, exchange.ended) == (None, (), "proxy_stopped")


def test_frames_without_their_opening_are_counted(tmp_path: Path) -> None:
    write(tmp_path, [*whole(1)[1:], *whole(2), closed(2)])
    reader = SpoolReader(tmp_path)
    assert ids(list(reader.exchanges())) == [2]
    assert reader.orphans == 4


def test_a_tail_torn_at_any_byte_costs_only_what_it_held(tmp_path: Path) -> None:
    path = write(tmp_path, [*whole(1), *whole(2, 10)])
    sound = path.read_bytes()
    all_of_it = list(read_spool(tmp_path))
    counts = []
    for end in range(len(sound) + 1):
        path.write_bytes(sound[:end])
        reader = SpoolReader(tmp_path)
        exchanges = list(reader.exchanges())
        whole_ones = [exchange for exchange in exchanges if exchange.ended == "complete"]
        assert whole_ones == all_of_it[: len(whole_ones)]
        assert len(exchanges) - len(whole_ones) <= 1
        assert sum(cut.lost_bytes for cut in reader.cuts) < len(sound)
        counts.append(len(whole_ones))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 2)


@unhurried
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_cuts_there_and_keeps_what_was_before(share: float, bit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), [*whole(1), *whole(2, 10)])
        sound = bytearray(path.read_bytes())
        # Its length varies with the writer's random name.
        place = HEADER_SIZE + int(share * (len(sound) - HEADER_SIZE))
        sound[place] ^= 1 << bit
        path.write_bytes(sound)
        reader = SpoolReader(Path(folder))
        list(reader.exchanges())
        (cut,) = reader.cuts
        assert cut.segment == path
        assert cut.offset <= place < cut.offset + cut.lost_bytes
        assert cut.offset + cut.lost_bytes == len(sound)


@unhurried
@given(st.lists(any_part, max_size=12))
def test_any_order_of_parts_can_be_read(said: list[Part]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), said)
        exchanges = list(read_spool(Path(folder)))
        assert len(exchanges) <= len(said)


def test_two_writers_are_merged_by_time(tmp_path: Path) -> None:
    write(tmp_path, [*whole(1, 0), *whole(2, 100), *whole(3, 200)], NOW_MS)
    write(tmp_path, [*whole(11, 50), *whole(12, 150)], NOW_MS + 40)
    write(tmp_path, [*whole(21, 300)], NOW_MS + 290)
    exchanges = list(read_spool(tmp_path))
    assert ids(exchanges) == [1, 11, 2, 12, 3, 21]
    assert len({exchange.exchange_id.rpartition("-")[0] for exchange in exchanges}) == 3


def test_an_exchange_may_cross_from_one_segment_into_the_next(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, lambda: NOW_MS)
    said = [*whole(1), opened(2, 10)]
    for number, part in enumerate([*said, chunk(2, b"late"), closed(2)]):
        assert writer.append(writer.encode(part)) is None
        if number == len(said) - 1:
            writer.close()
    writer.close()
    assert writer.segments == 2
    exchanges = list(read_spool(tmp_path))
    assert ids(exchanges) == [1, 2]
    assert exchanges[1].chunks == (Chunk(1.0, b"late"),)


def test_it_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, lambda: NOW_MS)
    for number in range(3):
        for part in whole(number, number):
            writer.append(writer.encode(part))
        assert ids(list(read_spool(tmp_path))) == list(range(number + 1))
    writer.close()


def test_memory_is_that_of_one_exchange(tmp_path: Path) -> None:
    size = 200_000
    writer = SegmentWriter(tmp_path, lambda: NOW_MS)
    parts: list[Part] = [opened(0)]  # never closed: all the others wait for it
    for number in range(1, 101):
        parts += whole(number, number, bytes(size))
    for part in parts:
        writer.append(writer.encode(part))
    writer.close()
    tracemalloc.start()
    count = sum(1 for _ in read_spool(tmp_path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 101
    assert peak < 10 * size


def test_a_response_over_the_limit_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MAX_BODY", 10)
    write(tmp_path, [opened(1), chunk(1, bytes(8)), chunk(1, bytes(8)), closed(1)])
    (exchange,) = read_spool(tmp_path)
    assert exchange.ended == "proxy_stopped"
    assert sum(len(each.data) for each in exchange.chunks) == 8


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: folder.rmdir(), "does not exist"),
        (lambda folder: (folder / "notes.txt").write_text("x"), "is no spool"),
        (lambda folder: (folder / f"x{spool.SUFFIX}").write_bytes(b"x" * 99), "is no segment"),
        (
            lambda folder: (folder / f"x{spool.SUFFIX}").write_bytes(
                b"agentx-spool" + struct.pack("<I", 2)
            ),
            "version 2, newer",
        ),
    ],
)
def test_what_is_no_spool_is_refused(tmp_path: Path, make: object, says: str) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    assert callable(make)
    make(folder)
    with pytest.raises(CaptureError, match=says):
        read_spool(folder)


def test_a_file_is_no_spool(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CaptureError, match="is not a folder"):
        read_spool(file)


def test_a_segment_that_changes_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, [*whole(1), opened(2, 5), *whole(3, 10)])
    exchanges = read_spool(tmp_path)
    next(exchanges)
    path.write_bytes(path.read_bytes()[: HEADER_SIZE + 20])
    with pytest.raises(CaptureError, match="changed while it was read"):
        list(exchanges)
