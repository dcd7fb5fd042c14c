"""The fields of a weka trace, checked: what stands in the file, nothing made of it yet.

The form has two writers, kv-cache-tester and InferenceX; which fields may be absent, and what
their times mean, differs (docs/import.md). Here only types and values are looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats.files import Record
from agentx.datasets.trace.block_runs import Blocks

_MAX_SECONDS = 1e9
_MAX_COUNT = 1 << 40
_MAX_BLOCK_SIZE = 1 << 16
_MAX_NAME = 1000


@dataclass(slots=True)
class Row:
    """One request as the trace has it. `t_us` is on the trace's own clock, in microseconds."""

    where: str
    t_us: int
    tokens: int
    output_tokens: int
    ids: Blocks
    """Ids of the full blocks."""
    tail_id: int | None
    model: str | None
    streamed: bool | None
    input_types: tuple[str, ...] | None
    output_types: tuple[str, ...] | None
    stop: str | None
    api_ms: int | None
    think_ms: int | None
    ttft_ms: int | None


@dataclass(slots=True)
class Subagent:
    """One `subagent` entry."""

    where: str
    t_us: int
    agent_id: str
    agent_type: str | None
    status: str | None
    duration_ms: int | None
    total_tokens: int | None
    tool_use_count: int | None
    tool_tokens: int | None
    system_tokens: int | None
    rows: list[Row]


@dataclass(slots=True)
class Trace:
    """One session as the trace has it; `entries` are in the order of the document."""

    where: str
    session_id: str
    block_size: int
    shared_ids: bool
    """Ids mean the same in every trace of the source (`hash_id_scope` "global")."""
    tool_tokens: int | None
    system_tokens: int | None
    entries: list[Row | Subagent]

    @property
    def has_requests(self) -> bool:
        """Whether anything was sent at all."""
        return any(isinstance(entry, Row) or entry.rows for entry in self.entries)


def is_trace(value: Any) -> bool:
    """Whether a JSON value means to be a weka trace."""
    return isinstance(value, dict) and "requests" in value and "block_size" in value


def parse(record: Record) -> Trace:
    """Read a trace's fields; extra ones are fine.

    Takes the `hash_ids` out of the record, so that both copies are not held at once.

    Raises:
        DatasetError: with the file, the request and the field that is wrong.
    """
    document, where = record.value, record.where
    if not is_trace(document):
        raise DatasetError(f"{where} is no weka trace (an object with `requests` and `block_size`)")
    size = _count(document, "block_size", where)
    if not 1 <= size <= _MAX_BLOCK_SIZE:
        raise DatasetError(f"{where}: block_size is {size}")
    scope = _text(document, "hash_id_scope", where)
    if scope not in (None, "local", "global"):
        raise DatasetError(f"{where}: hash_id_scope is {scope!r}, neither local nor global")
    parser = _Parser(size, record.has_bools)
    entries = [
        parser.entry(entry, f"{where}, request {index}")
        for index, entry in enumerate(_list(document, "requests", where))
    ]
    return Trace(
        where=where,
        session_id=_text(document, "id", where) or record.name,
        block_size=size,
        shared_ids=scope == "global",
        tool_tokens=_known(document, "tool_tokens", where),
        system_tokens=_known(document, "system_tokens", where),
        entries=entries,
    )


class _Parser:
    def __init__(self, block_size: int, has_bools: bool) -> None:
        self._block_size = block_size
        self._has_bools = has_bools
        # One object for each distinct list of types, whatever the number of requests.
        self._types: dict[tuple[str, ...], tuple[str, ...]] = {}

    def entry(self, entry: Any, where: str) -> Row | Subagent:
        if isinstance(entry, dict) and entry.get("type") == "subagent":
            return self._subagent(entry, where)
        return self._row(entry, where)

    def _subagent(self, entry: dict[str, Any], where: str) -> Subagent:
        rows = [
            self._row(row, f"{where}.{index}")
            for index, row in enumerate(_list(entry, "requests", where))
        ]
        return Subagent(
            where=where,
            t_us=_time(entry, "t", where),
            agent_id=_text(entry, "agent_id", where) or "",
            agent_type=_text(entry, "subagent_type", where),
            status=_text(entry, "status", where),
            duration_ms=_milliseconds(entry, "duration_ms", where),
            total_tokens=_known(entry, "total_tokens", where),
            tool_use_count=_known(entry, "tool_use_count", where),
            tool_tokens=_known(entry, "tool_tokens", where),
            system_tokens=_known(entry, "system_tokens", where),
            rows=rows,
        )

    def _row(self, row: Any, where: str) -> Row:
        if not isinstance(row, dict):
            raise DatasetError(f"{where} is no object")
        kind = _text(row, "type", where)
        if kind not in (None, "n", "s"):
            nested = " (a subagent within a subagent)" if kind == "subagent" else ""
            raise DatasetError(f"{where}: type is {kind!r}{nested}, neither 'n' nor 's'")
        tokens = _count(row, "in", where)
        ids, tail_id = self._ids(row, tokens, where)
        return Row(
            where=where,
            t_us=_time(row, "t", where),
            tokens=tokens,
            output_tokens=_count(row, "out", where),
            ids=ids,
            tail_id=tail_id,
            model=_text(row, "model", where),
            streamed=None if kind is None else kind == "s",
            input_types=self._names(row, "input_types", where),
            output_types=self._names(row, "output_types", where),
            stop=_text(row, "stop", where) or None,
            api_ms=_seconds(row, "api_time", where),
            # A source that takes the difference of rounded times may come out below 0.
            think_ms=_seconds(row, "think_time", where, low=-_MAX_SECONDS),
            ttft_ms=_seconds(row, "ttft", where),
        )

    def _ids(self, row: dict[str, Any], tokens: int, where: str) -> tuple[Blocks, int | None]:
        """Ids of the full blocks, and that of a partial last one where there is one."""
        listed = _list(row, "hash_ids", where)
        del row["hash_ids"]
        if self._has_bools and any(type(item) is not int for item in listed):
            raise DatasetError(f"{where}: hash_ids holds something that is no whole number")
        try:
            # The quickest way from a list to an array that takes whole numbers only.
            ids = np.frombuffer(struct.pack(f"{len(listed)}q", *listed), dtype=np.int64)
        except struct.error:
            raise DatasetError(
                f"{where}: hash_ids holds something that is no whole number below 2^63"
            ) from None
        if ids.size and int(ids.min()) < 0:
            raise DatasetError(f"{where}: hash_ids holds {ids.min()}; ids are not negative")
        full = tokens // self._block_size
        if ids.size > full + (tokens % self._block_size > 0):
            raise DatasetError(
                f"{where}: {ids.size} hash_ids, but its {tokens} tokens fill no more than "
                f"{full} blocks of {self._block_size}"
            )
        return (ids[:full], int(ids[full])) if ids.size > full else (ids, None)

    def _names(self, row: dict[str, Any], key: str, where: str) -> tuple[str, ...] | None:
        value = row.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise DatasetError(f"{where}: {key} is no list of names")
        names = tuple(value)
        return self._types.setdefault(names, names)


def _wrong(where: str, key: str, value: Any, wanted: str) -> DatasetError:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:37] + "…"
    return DatasetError(f"{where}: {key} is {shown}, not {wanted}")


def _list(document: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list):
        raise _wrong(where, key, value, "a list") if key in document else _absent(where, key)
    return value


def _absent(where: str, key: str) -> DatasetError:
    return DatasetError(f"{where}: {key} is missing")


def _text(document: Mapping[str, Any], key: str, where: str) -> str | None:
    value = document.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_NAME:
        raise _wrong(where, key, value, "a short text")
    return value


def _count(document: Mapping[str, Any], key: str, where: str) -> int:
    if key not in document:
        raise _absent(where, key)
    value = document[key]
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise _wrong(where, key, value, "a count")
    return value


def _known(document: Mapping[str, Any], key: str, where: str) -> int | None:
    return None if document.get(key) is None else _count(document, key, where)


def _number(
    document: Mapping[str, Any], key: str, where: str, low: float, high: float = _MAX_SECONDS
) -> float:
    value = document[key]
    if type(value) not in (int, float) or not low <= value <= high:
        raise _wrong(where, key, value, f"a number between {low:g} and {high:g}")
    return float(value)


def _time(document: Mapping[str, Any], key: str, where: str) -> int:
    """A number of seconds as microseconds."""
    if key not in document:
        raise _absent(where, key)
    return round(_number(document, key, where, 0) * 1_000_000)


def _seconds(document: Mapping[str, Any], key: str, where: str, low: float = 0) -> int | None:
    """An optional number of seconds as milliseconds."""
    if document.get(key) is None:
        return None
    return round(_number(document, key, where, low) * 1000)


def _milliseconds(document: Mapping[str, Any], key: str, where: str) -> int | None:
    if document.get(key) is None:
        return None
    return round(_number(document, key, where, 0, _MAX_SECONDS * 1000))
