"""From foreign traces to a data set: which files, what is skipped, what is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats import weka, weka_fields
from agentx.datasets.formats.files import records, trace_files
from agentx.datasets.formats.weka_clock import unused
from agentx.datasets.parquet.info import DatasetInfo, Dropped
from agentx.datasets.parquet.writer import DatasetWriter
from agentx.datasets.trace.model import Session

NO_TRACE = "json_that_is_no_trace"
"""Reason in agentx.json's `dropped`: files of a folder that hold something else."""
NO_REQUEST = "trace_without_requests"

Say = Callable[[str], None]


def import_weka(
    source: Path,
    out: Path,
    *,
    licence: str | None = None,
    overwrite: bool = False,
    say: Say = lambda line: None,
    file_done: Callable[[int, int], None] = lambda done, total: None,
) -> DatasetInfo:
    """Import weka traces from a file or a folder; nothing is left of a failed import.

    `say` is told what was skipped or renamed, `file_done` how many files of how many are read.

    Raises:
        DatasetError: no trace, a trace that is cut off or wrong, or `out` is not to be replaced.
    """
    files = trace_files(source)
    run = _WekaImport(source, licence, say)
    with ExitStack() as stack:
        writer: DatasetWriter | None = None
        for done, path in enumerate(files, start=1):
            for session, info in run.sessions(path):
                if writer is None:
                    writer = stack.enter_context(DatasetWriter(out, info, overwrite))
                writer.add(session)
            file_done(done, len(files))
        if writer is None:
            raise DatasetError(f"{source} has no weka trace with requests in it; nothing to import")
        writer.info = run.info()
    return writer.info


class _WekaImport:
    """What one import carries from trace to trace."""

    def __init__(self, source: Path, licence: str | None, say: Say) -> None:
        self._source = source
        self._say = say
        self._provenance = {"format": weka.NAME} | ({"licence": licence} if licence else {})
        self._dropped: dict[str, Dropped] = {}
        self._numbers = weka.BlockNumbers()
        self._names: set[str] = set()
        self._block_size: int | None = None
        self._shared_ids = False

    def info(self) -> DatasetInfo:
        """What the data set says of itself, as far as it has been read."""
        assert self._block_size is not None
        return DatasetInfo(
            block_size=self._block_size,
            hash_scope="global" if self._shared_ids else "local",
            provenance=self._provenance,
            dropped=self._dropped,
        )

    def sessions(self, path: Path) -> Iterator[tuple[Session, DatasetInfo]]:
        """The sessions of a file, each with the info so far."""
        for trace in self._traces(path):
            if self._block_size not in (None, trace.block_size):
                raise DatasetError(
                    f"{trace.where} has blocks of {trace.block_size} tokens, those before it "
                    f"of {self._block_size}; import them into two data sets"
                )
            self._block_size = trace.block_size
            self._shared_ids |= trace.shared_ids
            if not trace.has_requests:
                self._drop(NO_REQUEST, "sessions", f"{trace.where}: skipped, it has no requests")
                continue
            name = unused(trace.session_id, self._names)
            if name != trace.session_id:
                self._say(f"{trace.where}: session {trace.session_id} is here twice; now {name}")
            yield weka.to_session(trace, self._numbers, name), self.info()

    def _traces(self, path: Path) -> Iterator[weka_fields.Trace]:
        count = 0
        for record in records(path):
            if not weka_fields.is_trace(record.value) and path != self._source and not count:
                break
            count += 1
            yield weka_fields.parse(record)
        if not count:
            self._drop(NO_TRACE, "files", f"{path}: skipped, it is no weka trace")

    def _drop(self, reason: str, what: str, line: str) -> None:
        had = self._dropped.get(reason, Dropped(0, what))
        self._dropped[reason] = replace(had, count=had.count + 1)
        self._say(line)
