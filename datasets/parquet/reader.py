"""Reads a data set back: its sessions one after the other, or any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet import schema
from agentx.datasets.parquet.checks import Numbering, check_session
from agentx.datasets.parquet.info import DatasetInfo, read_info
from agentx.datasets.parquet.table import Column, TableReader
from agentx.datasets.trace.model import Agent, Request, Segment, Session

_Row = TypeVar("_Row", "SessionEntry", Agent, Request, Segment)


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """What sessions.parquet says of a session."""

    session_id: str
    start_ms: int | None
    contributor: int | None
    source: str
    requests: int
    """How many."""


class Dataset:
    """An opened data set. `entries` is cheap; sessions are read when asked for."""

    def __init__(self, folder: Path, info: DatasetInfo, entries: tuple[SessionEntry, ...]) -> None:
        self.folder = folder
        self.info = info
        self.entries = entries
        self._requests = TableReader(folder / "requests.parquet", schema.REQUESTS)
        self._agents = TableReader(folder / "agents.parquet", schema.AGENTS)
        segments = folder / "segments.parquet"
        self._segments: TableReader | None = None
        if info.counts.segments or segments.exists():
            self._segments = TableReader(segments, schema.SEGMENTS)
        if self._requests.rows != info.counts.requests:
            raise DatasetError(
                f"{self._requests.path} has {self._requests.rows} rows where agentx.json counts "
                f"{info.counts.requests}; the files are not of one data set, write it again"
            )

    def __len__(self) -> int:
        return len(self.entries)

    def sessions(self) -> Iterator[Session]:
        """Every session in stored order, reading one row group at a time.

        Raises:
            DatasetError: a file is damaged or its rows do not fit together.
        """
        numbering = Numbering()
        for index in range(len(self.entries)):
            session = self._session(index, ahead=True)
            with _damage_in(self.folder):
                numbering.check(session)
            yield session

    def load(self, index: int) -> Session:
        """The session at a position of `entries`, reading only the row groups that hold it.

        Raises:
            DatasetError: a file is damaged or its rows do not fit together.
        """
        return self._session(index, ahead=False)

    def _session(self, index: int, ahead: bool) -> Session:
        entry = self.entries[index]
        first = self._offsets[index]
        columns = self._requests.columns(first, first + entry.requests, ahead=ahead)
        _only(self._requests, columns["session_id"], entry)
        starts, lengths = columns.pop("append_start"), columns.pop("append_len")
        columns["append"] = list(zip(starts, lengths, strict=True))
        session = Session(
            session_id=entry.session_id,
            source=entry.source,
            agents=_objects(Agent, _rows_of(self._agents, self._agent_spans, entry, ahead)),
            requests=_objects(Request, columns),
            start_ms=entry.start_ms,
            contributor=entry.contributor,
            segments=_objects(Segment, _rows_of(self._segments, self._segment_spans, entry, ahead))
            if self._segments
            else (),
        )
        with _damage_in(self.folder):
            check_session(session, self.info.block_size)
        return session

    @cached_property
    def _offsets(self) -> list[int]:
        return list(accumulate((entry.requests for entry in self.entries), initial=0))

    @cached_property
    def _agent_spans(self) -> dict[str, tuple[int, int]]:
        return self._agents.spans("session_id")

    @cached_property
    def _segment_spans(self) -> dict[str, tuple[int, int]]:
        return self._segments.spans("session_id") if self._segments else {}


def open_dataset(path: Path | str) -> Dataset:
    """Open a data set's folder.

    Raises:
        DatasetError: it is none, is of a newer version, or a file is missing or damaged.
    """
    folder = Path(path)
    info = read_info(folder)
    table = TableReader(folder / "sessions.parquet", schema.SESSIONS)
    columns = table.columns(0, table.rows)
    entries = _objects(SessionEntry, columns)
    for entry in entries:
        if entry.requests < 0:
            raise DatasetError(
                f"{table.path}: session {entry.session_id} has {entry.requests} requests"
            )
    if len({entry.session_id for entry in entries}) != len(entries):
        raise DatasetError(f"{table.path}: two sessions have the same session_id")
    total = sum(entry.requests for entry in entries)
    if total != info.counts.requests:
        raise DatasetError(
            f"{table.path} counts {total} requests where agentx.json counts "
            f"{info.counts.requests}; the files are not of one data set, write it again"
        )
    return Dataset(folder, info, entries)


def _objects(kind: type[_Row], columns: Mapping[str, Column]) -> tuple[_Row, ...]:
    """One object a row; the columns are named as the class's fields."""
    ordered = [columns[item.name] for item in fields(kind)]
    return tuple(kind(*row) for row in zip(*ordered, strict=True))


def _rows_of(
    table: TableReader, spans: Mapping[str, tuple[int, int]], entry: SessionEntry, ahead: bool
) -> Mapping[str, Column]:
    return table.columns(*spans.get(entry.session_id, (0, 0)), ahead=ahead)


def _only(table: TableReader, names: Column, entry: SessionEntry) -> None:
    if any(name != entry.session_id for name in names):
        raise DatasetError(
            f"{table.path}: the rows of session {entry.session_id} are not where "
            "sessions.parquet puts them; write the data set again"
        )


@contextmanager
def _damage_in(folder: Path) -> Iterator[None]:
    """Add the data set's folder to an error about its rows."""
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"{folder}: {error}; write the data set again") from None
