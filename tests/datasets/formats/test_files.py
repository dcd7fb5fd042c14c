from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats import files
from agentx.datasets.formats.files import records, trace_files


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in trace_files(folder)]


def test_a_folder_is_searched_and_sorted(tmp_path: Path) -> None:
    for name in ("b.json", "a/z.jsonl", "a/b/c.json.gz", "a.jsonl.gz", "x.txt", ".hidden.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "folder.json").mkdir()
    assert names(tmp_path) == ["a.jsonl.gz", "a/b/c.json.gz", "a/z.jsonl", "b.json"]


def test_files_that_are_links_are_read_and_other_things_are_not(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("{}")
    (tmp_path / "one.json").symlink_to("blob")
    (tmp_path / "gone.json").symlink_to("nowhere")
    (tmp_path / "round").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe.json")
    assert names(tmp_path) == ["one.json"]


def test_a_source_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        trace_files(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match="has no file that ends in"):
        trace_files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DatasetError, match="neither a file nor a folder"):
        trace_files(tmp_path / "pipe")


def test_records_of_a_file(tmp_path: Path) -> None:
    one = tmp_path / "one.json"
    one.write_text('{"a": 1}')
    (record,) = records(one)
    assert (record.value, record.where, record.name) == ({"a": 1}, str(one), "one")
    assert not record.has_bools


def test_records_of_lines(tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl.gz"
    many.write_bytes(gzip.compress(b'{"a": true}\n\n  \n[2]'))
    found = list(records(many))
    assert [record.value for record in found] == [{"a": True}, [2]]
    assert [record.name for record in found] == ["many-1", "many-4"]
    assert [record.where for record in found] == [f"{many}, line 1", f"{many}, line 4"]
    assert [record.has_bools for record in found] == [True, False]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": NaN}', b"[" * 100_000, b'"\xff"', b"{}{}", b"\x1f\x8b"],
)
def test_a_file_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"one\.json is no whole JSON document"):
        list(records(path))


@pytest.mark.parametrize("keep", [1, 5, 12, 30, -1, -8])
def test_a_gzip_file_that_is_cut_off(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "one.json.gz"
    path.write_bytes(gzip.compress(os.urandom(40).hex().encode().join([b'"', b'"']))[:keep])
    with pytest.raises(DatasetError, match=r"one\.json\.gz is no whole gzip file"):
        list(records(path))


def test_a_gzip_file_that_is_none_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "one.json.gz"
    path.write_bytes(b'{"a": 1}')
    with pytest.raises(DatasetError, match="is no whole gzip file"):
        list(records(path))
    damaged = bytearray(gzip.compress(b'{"a": 1}' * 100))
    damaged[14] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(DatasetError, match="is no whole gzip file"):
        list(records(path))


def test_a_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": ')
    with pytest.raises(DatasetError, match=r"many\.jsonl, line 2 is no whole JSON"):
        list(records(path))


def test_a_record_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 10)
    path = tmp_path / "one.json.gz"
    path.write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(DatasetError, match="is larger than"):
        list(records(path))
    lines = tmp_path / "many.jsonl"
    lines.write_bytes(b"1\n" + b"1" * 100)
    with pytest.raises(DatasetError, match="line 2 is larger than"):
        list(records(lines))
