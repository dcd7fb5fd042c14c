"""Finds the trace files of an import and reads the JSON records in them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from agentx.datasets.errors import DatasetError

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
MAX_RECORD_BYTES = 1 << 30
"""Of one JSON document or line; larger ones are refused rather than held in memory."""

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a source."""

    value: Any
    where: str
    """Its file, and its line in a JSONL file: for messages."""
    name: str
    """A name of its own within the source: the file's without suffix, and its line."""
    has_bools: bool
    """Whether a `true` or `false` may be among its numbers, which Python takes for 1 and 0."""


def trace_files(source: Path) -> list[Path]:
    """The files to read: `source` itself, or those below it with a known suffix, by path.

    Raises:
        DatasetError: `source` does not exist, or has no such file in it.
    """
    if source.is_file():
        return [source]
    if not source.exists():
        raise DatasetError(f"{source} does not exist; name a trace file or a folder of them")
    if not source.is_dir():
        raise DatasetError(f"{source} is neither a file nor a folder")
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(source, onerror=_fail)
        for name in names
        if name.endswith(SUFFIXES) and not name.startswith(".")
    ]
    files = [path for path in found if path.is_file()]
    if not files:
        raise DatasetError(f"{source} has no file that ends in {', '.join(SUFFIXES)}")
    return sorted(files, key=lambda path: path.relative_to(source).as_posix())


def records(path: Path) -> Iterator[Record]:
    """The JSON values of a file: one, or one a line where its name says JSONL.

    Raises:
        DatasetError: the file is cut off, is no JSON, or a record is too large.
    """
    stem = path.name.removesuffix(".gz")
    lines = stem.endswith(".jsonl")
    stem = stem.removesuffix(".jsonl").removesuffix(".json")
    try:
        with _open(path) as file:
            if not lines:
                yield _record(_bounded(_content(file), str(path)), str(path), stem)
                return
            for number in count(1):
                line = file.readline(MAX_RECORD_BYTES + 1)
                if not line:
                    return
                where = f"{path}, line {number}"
                if line.strip():
                    yield _record(_bounded(line, where), where, f"{stem}-{number}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} is no whole gzip file ({error}); copy it again") from None


def _fail(error: OSError) -> None:
    raise error


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.endswith(".gz") else path.open("rb")


def _content(file: BufferedIOBase) -> bytes:
    """What is left of a file, and no more than one byte over the limit."""
    # In pieces: read(n) takes n bytes of memory first.
    pieces: list[bytes] = []
    size = 0
    while size <= MAX_RECORD_BYTES and (piece := file.read(_PIECE_BYTES)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_RECORD_BYTES:
        raise DatasetError(f"{where} is larger than {MAX_RECORD_BYTES >> 20} MiB; split it")
    return data


def _record(data: bytes, where: str, name: str) -> Record:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DatasetError(f"{where} is no whole JSON document ({error}); copy it again") from None
    return Record(value, where, name, b"true" in data or b"false" in data)
