from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentx.proxy_addons.errors import CaptureError
from agentx.proxy_addons.segments import KEY_FILE, SegmentWriter, open_folder
from agentx.proxy_addons.spool import SpoolReader, read_spool
from tests.proxy_addons.spools import NOW_MS, chunk, closed, opened, whole


def writer_in(folder: Path) -> SegmentWriter:
    return SegmentWriter(folder, lambda: NOW_MS)


def frames(writer: SegmentWriter, number: int) -> bytes:
    return b"".join(writer.encode(part) for part in whole(number))


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "a" / "spool"
        open_folder(folder)
        writer_in(folder).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_two_writers_never_share_a_file(tmp_path: Path) -> None:
    writers = [writer_in(tmp_path) for _ in range(3)]
    for number, writer in enumerate(writers):
        assert writer.append(frames(writer, number)) is None
    assert len(list(tmp_path.iterdir())) == 3
    assert len(list(read_spool(tmp_path))) == 3
    # Even by the same name: a file that is there is not opened.
    taken = next(tmp_path.iterdir())
    with pytest.raises(FileExistsError):
        os.open(taken, os.O_CREAT | os.O_EXCL)


class FailingDisk:
    """`os.write` that takes `room` bytes in all, and then fails."""

    def __init__(self, room: int, code: int) -> None:
        self.room = room
        self.code = code

    def __call__(self, file: int, data: memoryview | bytes) -> int:
        if not self.room:
            raise OSError(self.code, os.strerror(self.code))
        data = data[: self.room]
        self.room -= len(data)
        os.lseek(file, 0, os.SEEK_END)
        return os.pwrite(file, data, os.lseek(file, 0, os.SEEK_CUR))


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENOSPC, "disk_full"), (errno.EFBIG, "file_too_large"), (errno.EIO, "write_failed")],
)
def test_what_does_not_fit_leaves_no_torn_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    writer = writer_in(tmp_path)
    assert writer.append(frames(writer, 1)) is None
    disk = FailingDisk(room=10, code=code)
    monkeypatch.setattr(os, "write", disk)
    assert writer.append(frames(writer, 2)) == reason
    disk.room = 10_000
    assert writer.append(frames(writer, 3)) is None
    monkeypatch.undo()
    writer.close()
    reader = SpoolReader(tmp_path)
    assert [exchange.exchange_id[-1] for exchange in reader.exchanges()] == ["1", "3"]
    assert reader.cuts == []


def test_where_a_file_cannot_be_cut_back_a_new_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_in(tmp_path)
    writer.append(frames(writer, 1))
    disk = FailingDisk(room=10, code=errno.EIO)

    def refuse(file: int, length: int) -> None:
        disk.room = 10_000
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "write", disk)
    monkeypatch.setattr(os, "ftruncate", refuse)
    writer.append(frames(writer, 2))
    assert writer.append(frames(writer, 3)) is None
    monkeypatch.undo()
    writer.close()
    assert writer.segments == 2
    reader = SpoolReader(tmp_path)
    assert [exchange.exchange_id[-1] for exchange in reader.exchanges()][-1] == "3"
    assert len(reader.cuts) == 1


def test_a_removed_segment_is_noticed_and_followed_by_a_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    writer = writer_in(folder)
    writer.append(frames(writer, 1))
    assert not writer.was_removed()
    next(folder.iterdir()).unlink()
    folder.rmdir()
    assert writer.was_removed()
    assert not writer.was_removed()
    assert writer.append(frames(writer, 2)) is None
    assert [exchange.exchange_id[-1] for exchange in read_spool(folder)] == ["2"]


def test_frames_of_one_exchange_may_be_in_two_segments(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.append(writer.encode(opened(1)) + writer.encode(chunk(1, b"a")))
    writer.close()
    writer.append(writer.encode(chunk(1, b"b")) + writer.encode(closed(1)))
    (exchange,) = read_spool(tmp_path)
    assert b"".join(each.data for each in exchange.chunks) == b"ab"


def test_the_key_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    key = open_folder(folder)
    assert len(key) == 32
    assert open_folder(folder) == key
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    assert open_folder(tmp_path / "another") != key


def test_whoever_comes_second_takes_the_first_ones_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def beaten(source: Path, target: Path) -> None:
        target.write_bytes(b"k" * 32)
        link(source, target)

    monkeypatch.setattr(os, "link", beaten)
    assert open_folder(tmp_path / "spool") == b"k" * 32
    assert [path.name for path in (tmp_path / "spool").iterdir()] == [KEY_FILE]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "notes.txt").touch(), "holds other files"),
        (lambda folder: (folder / KEY_FILE).write_bytes(b"short"), "is no key"),
        (lambda folder: (folder.rmdir(), folder.touch()), "is not a folder"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], says: str
) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(CaptureError, match=says):
        open_folder(folder)
