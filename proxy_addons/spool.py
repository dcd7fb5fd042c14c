"""Read a spool: a folder of segment files, each written by one process, back into exchanges.

Segments are scanned in the order written. Of an exchange that is not finished only the places of
its frames are remembered; its bytes are read again when it is handed out. So memory stays that
of one exchange (for each process that wrote at the same time), however long the spool is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentx.proxy_addons import parts
from agentx.proxy_addons.errors import CaptureError
from agentx.proxy_addons.frames import (
    HEADER_SIZE,
    MAX_BODY,
    BadFrame,
    FrameReader,
    NewerSegment,
    NotASegment,
    read_header,
)
from agentx.proxy_addons.parts import Answered, BadPart, Chunks, Closed, Opened, Part, SegmentStart
from agentx.proxy_addons.wire.exchange import Chunk, Ended, Exchange

SUFFIX = ".segment"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a segment stopped being readable; all before it was kept."""

    segment: Path
    offset: int
    lost_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Segment:
    path: Path
    start: SegmentStart
    first: int
    """Where its second frame begins."""


@dataclass(slots=True)
class _Pending:
    """An exchange that is not handed out yet: where its frames are, not what they hold."""

    places: list[tuple[_Segment, int]] = field(default_factory=list)
    closed: bool = False


class SpoolReader:
    """A spool, opened for reading; it may still be written to meanwhile.

    Raises CaptureError where the folder is no spool or is of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cuts: list[Cut] = []
        """Filled while exchanges are read: one a segment that could not be read to its end."""
        self.orphans = 0
        """Frames whose exchange's opening was lost."""
        self._frames = FrameReader()
        self._writers = self._find_writers()

    def exchanges(self) -> Iterator[Exchange]:
        """Every exchange, in order of opening.

        One without its close ended with the proxy (`proxy_stopped`), and what came is kept.
        """
        # A process that has not started yet has opened nothing earlier than its start, so that
        # its files need not be looked at before the others have come that far.
        waiting = [(segments[0].start.started_ms, segments) for segments in self._writers]
        waiting.sort(key=lambda entry: entry[0], reverse=True)
        heads: list[tuple[float, int, Exchange, Iterator[Exchange]]] = []
        while heads or waiting:
            while waiting and (not heads or waiting[-1][0] <= heads[0][0]):
                self._push(heads, len(waiting), self._of_writer(waiting.pop()[1]))
            if heads:
                _, tie, exchange, rest = heapq.heappop(heads)
                yield exchange
                self._push(heads, tie, rest)

    @staticmethod
    def _push(
        heads: list[tuple[float, int, Exchange, Iterator[Exchange]]],
        tie: int,
        rest: Iterator[Exchange],
    ) -> None:
        exchange = next(rest, None)
        if exchange is not None:
            heapq.heappush(heads, (exchange.opened_ms, tie, exchange, rest))

    def _of_writer(self, segments: Sequence[_Segment]) -> Iterator[Exchange]:
        """One writer's exchanges in order of opening; each waits for those opened before it."""
        # Numbers are given when a request begins, frames are written when it is whole.
        pending: dict[int, _Pending] = {}
        order: list[int] = []
        for segment in segments:
            for offset, part in self._scan(segment):
                match part:
                    case Opened(exchange=number) if number not in pending:
                        pending[number] = _Pending([(segment, offset)])
                        heapq.heappush(order, number)
                    case Answered(exchange=number) | Chunks(exchange=number) if number in pending:
                        pending[number].places.append((segment, offset))
                    case Closed(exchange=number) if number in pending:
                        pending[number].places.append((segment, offset))
                        pending[number].closed = True
                    case _:
                        self.orphans += 1
                while order and pending[order[0]].closed:
                    yield self._load(pending.pop(heapq.heappop(order)))
        while order:
            yield self._load(pending.pop(heapq.heappop(order)))

    def _scan(self, segment: _Segment) -> Iterator[tuple[int, Part]]:
        """A segment's parts and where they begin, up to its end or its first bad frame."""
        with segment.path.open("rb") as file:
            file.seek(segment.first)
            while True:
                offset = file.tell()
                try:
                    data = self._frames.read(file)
                    if data is None:
                        return
                    part = parts.decode(data)
                except (BadFrame, BadPart) as error:
                    lost = file.seek(0, 2) - offset
                    self.cuts.append(Cut(segment.path, offset, lost, str(error)))
                    return
                yield offset, part

    def _load(self, pending: _Pending) -> Exchange:
        opened: Opened | None = None
        answered: Answered | None = None
        closed: Closed | None = None
        chunks: list[Chunk] = []
        room = MAX_BODY
        for segment, offset in pending.places:
            match self._part_at(segment, offset):
                case Opened() as part:
                    opened = part
                case Answered() as part:
                    answered = part
                case Chunks(chunks=more):
                    room -= sum(len(chunk.data) for chunk in more)
                    if room < 0:
                        break
                    chunks.extend(more)
                case Closed() as part:
                    closed = part
        assert opened is not None, "a pending exchange begins with its opening"
        ended: Ended = "proxy_stopped" if closed is None else closed.ended
        return Exchange(
            exchange_id=f"{pending.places[0][0].start.writer}-{opened.exchange}",
            upstream=opened.upstream,
            method=opened.method,
            path=opened.path,
            request_headers=opened.headers,
            request_body=opened.body,
            opened_ms=opened.opened_ms,
            status=None if answered is None else answered.status,
            response_headers=() if answered is None else answered.headers,
            chunks=tuple(chunks),
            ended=ended,
            end_ms=None if closed is None else closed.end_ms,
        )

    def _part_at(self, segment: _Segment, offset: int) -> Part:
        with segment.path.open("rb") as file:
            file.seek(offset)
            try:
                data = self._frames.read(file)
                if data is not None:
                    return parts.decode(data)
            except (BadFrame, BadPart):
                pass
        raise CaptureError(
            f"{segment.path} changed while it was read (at byte {offset}); "
            "segments are only ever appended to: leave them alone and run it again"
        )

    def _find_writers(self) -> list[list[_Segment]]:
        if not self.path.is_dir():
            what = "is not a folder" if self.path.exists() else "does not exist"
            raise CaptureError(f"{self.path} {what}; give the folder that 'agentx capture' wrote")
        paths = sorted(self.path.glob(f"*{SUFFIX}"))
        if not paths:
            raise CaptureError(
                f"{self.path} is no spool: it holds no {SUFFIX} files; "
                "give the folder that 'agentx capture' wrote"
            )
        writers: dict[str, list[_Segment]] = {}
        for path in paths:
            segment = self._open_segment(path)
            if segment is not None:
                writers.setdefault(segment.start.writer, []).append(segment)
        for segments in writers.values():
            segments.sort(key=lambda segment: segment.start.sequence)
        return list(writers.values())

    def _open_segment(self, path: Path) -> _Segment | None:
        """A segment, or None where its file broke off before its first frame was whole."""
        with path.open("rb") as file:
            try:
                if not read_header(file):
                    self._cut_whole(path, "the file's head is cut off")
                    return None
                data = self._frames.read(file)
                start = None if data is None else parts.decode(data)
            except NotASegment as error:
                raise CaptureError(
                    f"{path} is no segment of a spool; move it out of the spool's folder"
                ) from error
            except NewerSegment as error:
                raise CaptureError(
                    f"{path} is a spool of format version {error.args[0]}, newer than this "
                    "agentx reads; upgrade agentx"
                ) from error
            except (BadFrame, BadPart) as error:
                self._cut_whole(path, str(error))
                return None
            if not isinstance(start, SegmentStart):
                self._cut_whole(path, "its first frame does not say whose it is")
                return None
            return _Segment(path, start, file.tell())

    def _cut_whole(self, path: Path, reason: str) -> None:
        lost = max(path.stat().st_size - HEADER_SIZE, 0)
        self.cuts.append(Cut(path, min(path.stat().st_size, HEADER_SIZE), lost, reason))


def read_spool(path: Path) -> Iterator[Exchange]:
    """Every exchange of a spool, in order of opening. Raises CaptureError.

    Use `SpoolReader` to learn also what could not be read.
    """
    return SpoolReader(path).exchanges()
