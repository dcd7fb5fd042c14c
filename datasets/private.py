"""The private folder beside a data set: the hash key and the map to real ids, for its owner only.

`publish` never takes it along. It is made with mode 0700, its files with 0600.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from agentx.datasets.errors import DatasetError

KEY_FILE = "key"
MAP_FILE = "sessions.jsonl"
_KEY_BYTES = 32
_SCRATCH = "unfinished-"


class PrivateFolder:
    """`DATASET.private` while a data set is built; use it in a `with` block.

    It is made where it is not there yet, and then goes again if the build fails.
    """

    def __init__(self, dataset: Path) -> None:
        self.path = dataset.absolute().with_name(dataset.absolute().name + ".private")
        self._made = False

    def __enter__(self) -> PrivateFolder:
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            raise DatasetError(f"{self.path} is in the way; move it, or name another data set")
        self._made = not self.path.exists()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._made:
            shutil.rmtree(self.path, ignore_errors=True)

    def key(self, key_file: Path | None) -> bytes:
        """The hash key: that of `key_file`, else the folder's own.

        A key file that does not exist is written with a new key, so that the next spool can be
        built with it.

        Raises:
            DatasetError: the file holds no key.
        """
        own = self.path / KEY_FILE
        if key_file is None:
            return _key_at(own)
        key = _key_at(key_file)
        _write(own, key)
        return key

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for what a build holds on disk; what an earlier one left goes too."""
        for left in self.path.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=self.path) as folder:
            yield Path(folder)

    def write_map(self, sessions: Iterable[Mapping[str, Any]]) -> None:
        """Write the real ids behind a data set's names, one session a line."""
        _write(self.path / MAP_FILE, b"".join(orjson.dumps(s) + b"\n" for s in sessions))


def _key_at(path: Path) -> bytes:
    if path.exists():
        return _read_key(path)
    key = secrets.token_bytes(_KEY_BYTES)
    _write(path, key)
    return key


def _read_key(path: Path) -> bytes:
    with path.open("rb") as file:
        key = file.read(_KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise DatasetError(
            f"{path} holds no hash key of {_KEY_BYTES} bytes; name the key file of an earlier "
            "build, or one that does not exist yet"
        )
    return key


def _write(path: Path, data: bytes) -> None:
    """Put a file into place whole, readable by its owner alone."""
    beside = path.with_name(f".{path.name}-unfinished-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
