"""The folder of a run: written line by line while it runs, as tables when it ends, read back.

While a run goes on, each finished request is one line of a journal, written at once, so that not
even `kill -9` loses one. At the end the journals become Parquet tables. The format is documented in
docs/run.md.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from agentx.replay.errors import ReplayError
from agentx.replay.rows import REQUESTS

FORMAT_VERSION = 1
"""Written to run.json. A reader refuses a higher one."""

RUN_FILE = "run.json"
TABLES = ("requests", "telemetry")

TELEMETRY = pa.schema(
    [
        ("t_ms", pa.float64()),
        ("source", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
    ]
)
"""A run's telemetry.parquet: one value of the server's metrics or of the client itself."""

_SCHEMAS = {"requests": REQUESTS, "telemetry": TELEMETRY}
_MAX_RUN_BYTES = 64 << 20
_BATCH_ROWS = 2_000
_BATCH_EVENTS = 500_000


class Journal:
    """Lines of JSON, each in the file before the next is taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Unbuffered: a line that was written is the kernel's, and outlives this process.
        self._file = io.FileIO(path, "w")

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            OSError: it could not be written whole (a full disk).
        """
        line = memoryview(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def close(self) -> None:
        """Close the file; lines can no longer be added."""
        self._file.close()


class RunWriter:
    """Writes one run. Leaving it without `finish` leaves the journals, which can be read too."""

    def __init__(self, folder: Path, document: Mapping[str, Any]) -> None:
        """Make the folder, which must be new, and note in it what is about to run.

        Raises:
            ReplayError: there is something at that path already.
        """
        try:
            folder.mkdir(parents=True)
        except (FileExistsError, NotADirectoryError):
            raise exists(folder) from None
        self.folder = folder
        self._document = {"format_version": FORMAT_VERSION, "complete": False, **document}
        _write_json(folder / RUN_FILE, {"state": "running", **self._document})
        self.requests = Journal(folder / "requests.jsonl")
        self.telemetry = Journal(folder / "telemetry.jsonl")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.requests.close()
        self.telemetry.close()

    def write_tables(
        self, complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda row: row
    ) -> None:
        """Turn the journals into tables, the requests in the order of their sends.

        `complete` is given each request's row in that order, and may add what only the whole run
        could tell. Nothing can be appended any more.
        """
        self.requests.close()
        self.telemetry.close()
        for name, rows in (
            ("requests", map(complete, _by_send(self.requests.path))),
            ("telemetry", journal_rows(self.telemetry.path)),
        ):
            part = self.folder / f"{name}.parquet.part"
            try:
                with pq.ParquetWriter(part, _SCHEMAS[name], compression="zstd") as writer:
                    for batch in _batches(rows, _SCHEMAS[name]):
                        writer.write_batch(batch)
                part.replace(self.folder / f"{name}.parquet")
            finally:
                part.unlink(missing_ok=True)

    def finish(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write run.json for good, after the tables, and return it."""
        full = {"state": "finished", **self._document, **document}
        _write_json(self.folder / RUN_FILE, full)
        # Only now: until run.json says that the run is finished, the journals are what counts.
        for journal in (self.requests, self.telemetry):
            journal.path.unlink()
        return full


def exists(folder: Path) -> ReplayError:
    """The error for a run folder that is there already."""
    return ReplayError(f"{folder} exists already: name a new folder with -o")


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was read."""

    folder: Path
    document: Mapping[str, Any]
    """run.json."""
    state: Literal["finished", "journal"]
    """`finished`: it ended and wrote its tables. `journal`: it goes on, or was killed."""
    requests: pa.Table
    telemetry: pa.Table

    @property
    def complete(self) -> bool:
        """Whether it sent all that its configuration asks for."""
        return self.document.get("complete") is True


def open_run(path: Path | str) -> Run:
    """Read a run, or what a run that was killed had finished.

    Raises:
        ReplayError: it is none, is of a newer version, or a file is damaged.
    """
    folder = Path(path)
    document = _read_document(folder)
    state: Literal["finished", "journal"] = (
        "finished" if document.get("state") == "finished" else "journal"
    )
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        path = folder / f"{name}.{'parquet' if state == 'finished' else 'jsonl'}"
        try:
            if state == "finished":
                with path.open("rb") as file:
                    tables[name] = pq.ParquetFile(file).read()
                # Damage can leave what decodes, but is no text.
                tables[name].validate(full=True)
            else:
                schema = _SCHEMAS[name]
                tables[name] = pa.Table.from_batches(_batches(journal_rows(path), schema), schema)
        except FileNotFoundError:
            raise ReplayError(f"{folder} lacks {path.name}: the run cannot be read") from None
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise ReplayError(f"{path} is damaged ({error})") from None
    return Run(folder, document, state, tables["requests"], tables["telemetry"])


def journal_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a journal in the order written; a last line that was cut off is left out.

    Raises:
        ValueError: a line before the last is no JSON object.
    """
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            row = orjson.loads(line)
            if not isinstance(row, dict):
                raise ValueError("a line is no JSON object")
            yield row


def _read_document(folder: Path) -> dict[str, Any]:
    path = folder / RUN_FILE
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_RUN_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        what = "is no run" if folder.exists() else "does not exist"
        raise ReplayError(
            f"{folder} {what} (no {RUN_FILE} there); make one with 'agentx replay'"
        ) from None
    try:
        document = orjson.loads(data)
    except ValueError:
        raise ReplayError(f"{path} is damaged: it is no JSON") from None
    version = document.get("format_version") if isinstance(document, dict) else None
    if type(version) is not int:
        raise ReplayError(f"{path} is damaged: it names no format_version")
    if version > FORMAT_VERSION:
        raise ReplayError(
            f"{folder} has format version {version} and this AgentX reads up to {FORMAT_VERSION}; "
            "install a newer agentx-replay"
        )
    assert isinstance(document, dict)
    return document


def _by_send(path: Path) -> Iterator[dict[str, Any]]:
    """A journal's rows in the order of their sends, with one of them in memory at a time."""
    places: list[tuple[float, int]] = []
    with path.open("rb") as file:
        at = 0
        for line in file:
            if line.endswith(b"\n"):
                places.append((float(orjson.loads(line)["sent_ms"]), at))
            at += len(line)
        for _, place in sorted(places):
            file.seek(place)
            row: dict[str, Any] = orjson.loads(file.readline())
            yield row


def _batches(rows: Iterator[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    held: list[Mapping[str, Any]] = []
    events = 0
    for row in rows:
        held.append(row)
        events += row.get("events") or 0
        if len(held) == _BATCH_ROWS or events >= _BATCH_EVENTS:
            yield pa.RecordBatch.from_pylist(held, schema=schema)
            held, events = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=schema)


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    part = path.with_suffix(".json.part")
    data = orjson.dumps(
        document,
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY,
    )
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
