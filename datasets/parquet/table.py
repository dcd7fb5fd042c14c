"""One Parquet file as columns of Python values, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agentx.datasets.errors import DatasetError

Column: TypeAlias = list[Any]
"""A column's values; a list column's are tuples, and what is null is None."""

MAX_GROUP_ROWS = 1 << 20
MAX_GROUP_BYTES = 1 << 30
"""Larger row groups are not ours; reading one whole would not be bounded."""
KEPT_GROUPS = 4


class TableReader:
    """Random access to the rows of one table, from any thread.

    The row groups last used are kept, so that neighbours cost little.

    Raises:
        DatasetError: the file is missing, no Parquet, or lacks a column.
    """

    def __init__(self, path: Path, columns: pa.Schema) -> None:
        self.path = path
        self._schema = columns
        self._lock = RLock()
        self._groups: dict[int, pa.Table] = {}
        self._decoded: tuple[int, dict[str, Column]] | None = None
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
            found = self._file.schema_arrow
        except FileNotFoundError:
            raise DatasetError(f"{path} is missing; write the data set again") from None
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None
        for field in columns:
            self._check_column(field, found)
        self.rows: int = self._file.metadata.num_rows
        self._ends = list(accumulate(self._group_rows()))
        if (self._ends or [0])[-1] != self.rows:
            raise self._damaged("its row groups do not add up")

    def _check_column(self, field: pa.Field, found: pa.Schema) -> None:
        place = found.get_field_index(field.name)
        if place < 0:
            raise DatasetError(f"{self.path} has no column {field.name}; write the data set again")
        kind = found.field(place).type
        if not _reads_as(kind, field.type):
            raise DatasetError(
                f"{self.path}: column {field.name} is {kind}, not {field.type}; "
                "write the data set again"
            )

    def _group_rows(self) -> Iterator[int]:
        # Nothing is asked of single columns here: with a damaged footer that ends the process.
        metadata = self._file.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if not 0 <= group.num_rows <= MAX_GROUP_ROWS or group.total_byte_size > MAX_GROUP_BYTES:
                raise DatasetError(
                    f"{self.path}: row group {number} has {group.num_rows} rows in "
                    f"{group.total_byte_size} bytes, more than AgentX writes; "
                    "write the data set again"
                )
            yield group.num_rows

    def columns(self, first: int, stop: int, *, ahead: bool = False) -> dict[str, Column]:
        """The columns of rows first … stop − 1.

        With `ahead` the row group is turned into values as a whole, which costs least where the
        rows after these are wanted next.
        """
        result: dict[str, Column] = {name: [] for name in self._schema.names}
        begin = 0
        for number, end in enumerate(self._ends):
            if begin < stop and end > first:
                part = self._part(number, max(first - begin, 0), min(stop, end) - begin, ahead)
                for name, column in part.items():
                    result[name] += column
            begin = end
        return result

    def spans(self, name: str) -> dict[str, tuple[int, int]]:
        """Where each value of a column stands, (first row, last row + 1); its rows are together."""
        spans: dict[str, tuple[int, int]] = {}
        row = 0
        for number in range(len(self._ends)):
            for value in self._read(number, [name]).column(0).to_pylist():
                first, stop = spans.get(value, (row, row))
                if stop != row:
                    raise DatasetError(
                        f"{self.path}: the rows of {name} {value} are not together; "
                        "write the data set again"
                    )
                row += 1
                spans[value] = (first, row)
        return spans

    def _part(self, number: int, first: int, stop: int, ahead: bool) -> dict[str, Column]:
        with self._lock:
            if ahead:
                if self._decoded is None or self._decoded[0] != number:
                    self._decoded = None
                    self._decoded = (number, self._convert(self._group(number)))
                return {name: column[first:stop] for name, column in self._decoded[1].items()}
            return self._convert(self._group(number).slice(first, stop - first))

    def _group(self, number: int) -> pa.Table:
        """A row group; the latest few are kept, for sessions that are read in turn."""
        table = self._groups.pop(number, None)
        if table is None:
            table = self._read(number, self._schema.names)
            if table.num_rows != self._file.metadata.row_group(number).num_rows:
                raise self._damaged("a row group has fewer rows than it says")
        self._groups[number] = table
        while len(self._groups) > KEPT_GROUPS:
            del self._groups[next(iter(self._groups))]
        return table

    def _read(self, number: int, names: list[str]) -> pa.Table:
        try:
            with self._lock:
                return self._file.read_row_group(number, columns=names, use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None

    def _convert(self, table: pa.Table) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for field in self._schema:
            column = table.column(field.name)
            if column.null_count and not field.nullable:
                raise DatasetError(
                    f"{self.path}: column {field.name} has rows without a value; "
                    "write the data set again"
                )
            try:
                columns[field.name] = _values(column, field.type)
            except (pa.ArrowException, ValueError) as error:
                raise self._damaged(error) from None
        return columns

    def _damaged(self, error: Exception | str) -> DatasetError:
        reason = str(error).partition("\n")[0].rstrip(".")
        return DatasetError(f"{self.path} is damaged ({reason}); write the data set again")


def _reads_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(wanted):
        return pa.types.is_list(found) and _reads_as(found.value_type, wanted.value_type)
    return bool(found == wanted)


def _values(column: pa.ChunkedArray, kind: pa.DataType) -> Column:
    if column.null_count == len(column):
        return [None] * len(column)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_list(kind):
        return _lists(array)
    if pa.types.is_string(kind):
        # One object a distinct value, whatever the number of rows.
        coded = array.dictionary_encode()
        words = [*coded.dictionary.to_pylist(), None]
        codes = pc.fill_null(coded.indices, len(words) - 1).to_numpy(zero_copy_only=False)
        return [words[code] for code in codes.tolist()]
    if array.null_count:
        values: Column = (
            array.fill_null(False if pa.types.is_boolean(kind) else 0)
            .to_numpy(zero_copy_only=False)
            .tolist()
        )
        for row in pc.indices_nonzero(array.is_null()).to_pylist():
            values[row] = None
        return values
    plain: Column = array.to_numpy(zero_copy_only=False).tolist()
    return plain


def _lists(array: pa.ListArray) -> Column:
    items = array.flatten()
    if items.null_count:
        raise ValueError("a list has an item without a value")
    flat = _values(pa.chunked_array([items]), array.type.value_type)
    sizes = pc.list_value_length(array).to_pylist()
    shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    lists: Column = []
    at = 0
    for size in sizes:
        if size is None:
            lists.append(None)
            continue
        cell = tuple(flat[at : at + size])
        lists.append(shared.setdefault(cell, cell))
        at += size
    return lists
