"""One Parquet file as columns of Python values, a row group at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agentx.datasets.errors import DatasetError

Column: TypeAlias = list[Any]
"""A column's values; a list column's are tuples, and what is null is None."""

_MAX_GROUP_ROWS = 1 << 20
_MAX_GROUP_VALUES = 1 << 25
"""Larger row groups are not ours; reading one whole would not be bounded."""


class TableReader:
    """Random access to the rows of one table.

    The row groups last used are kept decoded, so that neighbours cost nothing.

    Raises:
        DatasetError: the file is missing, no Parquet, or lacks a column.
    """

    def __init__(self, path: Path, columns: pa.Schema) -> None:
        self.path = path
        self._schema = columns
        self._group: tuple[int, dict[str, Column]] | None = None
        try:
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
            found = self._file.schema_arrow
        except FileNotFoundError:
            raise DatasetError(f"{path} is missing; write the data set again") from None
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None
        for field in columns:
            if field.name not in found.names:
                raise DatasetError(f"{path} has no column {field.name}; write the data set again")
            if not _reads_as(found.field(field.name).type, field.type):
                raise DatasetError(
                    f"{path}: column {field.name} is {found.field(field.name).type}, not "
                    f"{field.type}; write the data set again"
                )
        metadata = self._file.metadata
        self.rows: int = metadata.num_rows
        self._ends: list[int] = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            values = max((group.column(i).num_values for i in range(group.num_columns)), default=0)
            if group.num_rows > _MAX_GROUP_ROWS or values > _MAX_GROUP_VALUES:
                raise DatasetError(
                    f"{path}: row group {number} has {group.num_rows} rows, more than AgentX "
                    "writes; write the data set again"
                )
            self._ends.append(group.num_rows + (self._ends[-1] if self._ends else 0))

    def columns(self, first: int, stop: int) -> dict[str, Column]:
        """The columns of rows first … stop − 1."""
        result: dict[str, Column] = {name: [] for name in self._schema.names}
        begin = 0
        for number, end in enumerate(self._ends):
            if begin < stop and end > first:
                for name, column in self._decoded(number).items():
                    result[name] += column[max(first - begin, 0) : stop - begin]
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

    def _decoded(self, number: int) -> dict[str, Column]:
        if self._group is None or self._group[0] != number:
            self._group = None
            self._group = (number, self._convert(self._read(number, self._schema.names)))
        return self._group[1]

    def _read(self, number: int, names: list[str]) -> pa.Table:
        try:
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

    def _damaged(self, error: Exception) -> DatasetError:
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
