"""Writes a data set: sessions in, a folder of Parquet out, or nothing at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet import encoding, schema
from agentx.datasets.parquet.card import CARD_FILE, data_card
from agentx.datasets.parquet.checks import Numbering, check_session
from agentx.datasets.parquet.info import INFO_FILE, Counts, DatasetInfo
from agentx.datasets.trace.model import MAIN_AGENT, Session

GROUP_ROWS = 16_384
"""A table's row group is written once it has this many rows; a session's rows share one."""


class DatasetWriter:
    """A data set being written; use it in a `with` block.

    It writes into a temporary folder beside `out` and renames it on a clean exit only, so that
    `out` is never half written. On any error everything written is removed.

    Raises:
        DatasetError: `out` exists and is not empty (unless `overwrite`, which replaces a data set
            and nothing else), or a session whose parts do not fit together.
        OSError: the disk is full or not writable.
    """

    def __init__(self, out: Path, info: DatasetInfo, overwrite: bool = False) -> None:
        self._out = out.absolute() if not out.is_symlink() else out.resolve()
        self.info = info
        """May be replaced until the end (what was dropped is known late), but for block_size."""
        self._overwrite = overwrite
        self._counts = Counts()
        self._numbering = Numbering()
        self._names: set[str] = set()
        self._tables: dict[str, _Table] = {}
        self._folder: Path | None = None

    def __enter__(self) -> DatasetWriter:
        refuse_out(self._out, self._overwrite)
        beside = self._out.parent
        while not beside.is_dir():
            beside = beside.parent
        prefix = f".{self._out.name}-unfinished-"
        self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=beside))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._folder is not None
        try:
            if kind is None:
                with _naming(self._out):
                    self._finish(self._folder)
        finally:
            for table in self._tables.values():
                table.abandon()
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, session: Session) -> None:
        """Append a session. Its block integers go on from those of the sessions before it."""
        if session.session_id in self._names:
            raise DatasetError(f"two sessions have the session_id {session.session_id!r}")
        check_session(session, self.info.block_size)
        self._numbering.check(session)
        self._names.add(session.session_id)
        with _naming(self._out):
            self._table("sessions").add([session])
            self._table("agents").add(session.agents)
            self._table("requests").add(session.requests)
            if session.segments:
                self._table("segments").add(session.segments)
        had = self._counts
        self._counts = Counts(
            sessions=had.sessions + 1,
            agents=had.agents + len(session.agents),
            subagents=had.subagents + sum(a.agent_id != MAIN_AGENT for a in session.agents),
            requests=had.requests + len(session.requests),
            blocks=self._numbering.count,
            segments=had.segments + len(session.segments),
        )

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            assert self._folder is not None, "use DatasetWriter in a with block"
            self._tables[name] = _Table(self._folder / f"{name}.parquet", schema.TABLES[name])
        return self._tables[name]

    def _finish(self, folder: Path) -> None:
        if not self._counts.sessions:
            raise DatasetError(f"no session to write to {self._out}")
        for table in self._tables.values():
            table.close()
        self.info = replace(self.info, counts=self._counts)
        (folder / INFO_FILE).write_bytes(self.info.to_json())
        card = data_card(self.info, sorted(self._tables))
        (folder / CARD_FILE).write_text(card, encoding="utf-8")
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        # mkdtemp made the folder private; a data set is as readable as any new folder.
        mask = os.umask(0)
        os.umask(mask)
        folder.chmod(0o777 & ~mask)
        self._out.parent.mkdir(parents=True, exist_ok=True)
        refuse_out(self._out, self._overwrite)
        _put(folder, self._out)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have an OSError that names no file (Arrow's) name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


class _Table:
    """One Parquet file, written in row groups."""

    def __init__(self, path: Path, columns: pa.Schema) -> None:
        self._columns = columns
        self._rows: list[Any] = []
        self._writer = pq.ParquetWriter(path, columns, **encoding.options(columns))

    def add(self, rows: Iterable[Any]) -> None:
        self._rows.extend(rows)
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that is about to be removed, even where it cannot be completed."""
        with suppress(OSError, pa.ArrowException):
            if self._writer.is_open:
                self._writer.close()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            arrays = [pa.array(_cells(rows, field.name), field.type) for field in self._columns]
            self._writer.write_table(
                pa.Table.from_arrays(arrays, schema=self._columns), row_group_size=len(rows)
            )


def _cells(rows: list[Any], name: str) -> list[Any]:
    if name == "append_start":
        return [row.append[0] for row in rows]
    if name == "append_len":
        return [row.append[1] for row in rows]
    cells = list(map(attrgetter(name), rows))
    if name == "requests":
        return [len(cell) for cell in cells]
    return cells


def refuse_out(out: Path, overwrite: bool) -> None:
    """Refuse to write where something is already, unless it is a data set to be replaced.

    Raises:
        DatasetError: with what is there and what to do.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise DatasetError(f"{out} is a file; name a folder that does not exist yet")
    there = {entry.name for entry in out.iterdir()}
    if not there:
        return
    if not overwrite:
        raise DatasetError(
            f"{out} exists and is not empty; name another folder, or add --overwrite to replace it"
        )
    known = {INFO_FILE, CARD_FILE, *(f"{name}.parquet" for name in schema.TABLES), "croissant.json"}
    if INFO_FILE not in there or not there <= known:
        raise DatasetError(
            f"{out} holds more than a data set, so it is not replaced; name another folder"
        )


def _put(folder: Path, out: Path) -> None:
    """Rename a finished folder into place; a data set that is there goes only once it is."""
    old: Path | None = None
    if out.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
        out.rename(old / "old")
    try:
        folder.rename(out)
    except BaseException:
        if old is not None:
            (old / "old").rename(out)
            old.rmdir()
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
