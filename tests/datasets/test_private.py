"""The private folder: who may read it, whose key it holds, what a failure leaves."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agentx.datasets.errors import DatasetError
from agentx.datasets.private import PrivateFolder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_owner_reads_it_and_its_key_stays(tmp_path: Path) -> None:
    with PrivateFolder(tmp_path / "ds") as private:
        key = private.key(None)
        private.write_map([{"session_id": "s1"}])
    assert private.path == tmp_path / "ds.private"
    assert mode(private.path) == 0o700
    assert {mode(path) for path in private.path.iterdir()} == {0o600}
    with PrivateFolder(tmp_path / "ds") as again:
        assert again.key(None) == key
    assert len(key) == 32


def test_a_key_file_is_made_once_and_copied(tmp_path: Path) -> None:
    file = tmp_path / "team.key"
    with PrivateFolder(tmp_path / "one") as one:
        key = one.key(file)
    assert mode(file) == 0o600
    with PrivateFolder(tmp_path / "two") as two:
        assert two.key(file) == key
        assert two.key(None) == key


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_file_that_holds_no_key_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "team.key"
    file.write_bytes(content)
    with (
        pytest.raises(DatasetError, match=r"team\.key holds no hash key"),
        PrivateFolder(tmp_path / "ds") as private,
    ):
        private.key(file)
    assert file.read_bytes() == content
    assert not private.path.exists()


def fail(dataset: Path) -> None:
    with PrivateFolder(dataset) as private:
        private.key(None)
        raise ZeroDivisionError


def test_a_failed_build_leaves_a_folder_only_if_it_was_there(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path / "ds")
    assert list(tmp_path.iterdir()) == []
    with PrivateFolder(tmp_path / "ds") as private:
        key = private.key(None)
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path / "ds")
    with PrivateFolder(tmp_path / "ds") as private:
        assert private.key(None) == key


def test_what_a_killed_build_left_goes_with_the_next(tmp_path: Path) -> None:
    left = tmp_path / "ds.private" / "unfinished-abc"
    left.mkdir(parents=True)
    (left / "scratch.sqlite").write_bytes(b"tokens")
    with PrivateFolder(tmp_path / "ds") as private:
        with private.scratch() as folder:
            assert not left.exists()
            assert folder.is_dir()
        assert not folder.exists()


def test_a_file_or_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.private").write_text("mine")
    (tmp_path / "two.private").symlink_to(tmp_path)
    for name in ("one", "two"):
        with pytest.raises(DatasetError, match="is in the way"), PrivateFolder(tmp_path / name):
            pass
    assert (tmp_path / "one.private").read_text() == "mine"
