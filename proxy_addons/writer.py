"""What the proxy saw, redacted and written to the spool. Everything here runs in one thread.

Nothing raises out of here: what goes wrong with one exchange is that exchange's loss, counted.
A record is always a true beginning of its exchange: once some of it could not be kept, the rest
is not either, and its close says that the recording stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.frames import MAX_BODY
from agentx.proxy_addons.identities import Pseudonyms, hide_identities
from agentx.proxy_addons.parts import Answered, Chunks, Closed, Opened
from agentx.proxy_addons.redact import Secrets, StreamMask, mask
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.wire.encodings import BodyDecoder, decode_body
from agentx.proxy_addons.wire.exchange import Chunk, Headers, header

_FLUSH_BYTES = 8 << 20
_FLUSH_CHUNKS = 4096


@dataclass(frozen=True, slots=True)
class Opening:
    """A request, its body still as it was sent."""

    part: Opened
    """Without its body."""
    body: tuple[bytes, ...]
    """In the pieces it came in."""
    secrets: Secrets


class Piece(NamedTuple):
    """Bytes of a response, still encoded. A tuple: there is one for every chunk that goes by."""

    exchange: int
    at_ms: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Closing:
    """An end, and why not all of the response was handed over, where it was not."""

    part: Closed
    trouble: str | None


Item: TypeAlias = Opening | Answered | Piece | Closing

_Entry: TypeAlias = Opened | Answered | Chunks | Closed


@dataclass(slots=True)
class _Record:
    """An exchange that is being written."""

    mask: StreamMask
    decoder: BodyDecoder = field(default_factory=lambda: BodyDecoder(None))
    chunks: list[Chunk] = field(default_factory=list)
    """Decoded, not masked yet."""
    waiting_bytes: int = 0
    on_disk: bool = False
    """Its opening was written."""
    trouble: str | None = None
    """Why the record stops before its exchange does."""


class ExchangeWriter:
    """Items to frames of a spool."""

    def __init__(self, segments: SegmentWriter, pseudonyms: Pseudonyms, counters: Counters) -> None:
        self.segments = segments
        self._pseudonyms = pseudonyms
        self._counters = counters
        self._records: dict[int, _Record] = {}
        self._entries: list[_Entry] = []

    def write(self, items: Iterable[Item]) -> None:
        """Redact and append; all that these items say is in the file afterwards, or counted."""
        for item in items:
            try:
                self._take(item)
            except Exception:
                self._fault(item)
        for number, record in self._records.items():
            self._flush(number, record)
        self._append()

    def _fault(self, item: Item) -> None:
        self._counters.fault()
        match item:
            case Opening(part=part):
                self._lose(part.exchange, "fault")
            case Answered(exchange=number) | Piece(exchange=number) if number in self._records:
                self._records[number].trouble = "fault"

    def sync(self) -> None:
        """Have the disk keep what was written, and notice where the spool was deleted."""
        try:
            self._notice_removal()
            self.segments.sync()
        except OSError:
            self._counters.fault()

    def close(self) -> None:
        """Sync, close the file, and count what is still open as lost to the stop."""
        for number, record in list(self._records.items()):
            self._settle(Closed(number, "proxy_stopped", None, 0, 0), record)
        try:
            self.segments.close()
        except OSError:
            self._counters.fault()

    def _take(self, item: Item) -> None:
        match item:
            case Piece():
                record = self._records.get(item.exchange)
                if record is not None and record.trouble is None:
                    self._keep(record, item)
            case Opening(part=part):
                opened = self._records[part.exchange] = _Record(StreamMask(item.secrets))
                self._entries.append(self._redacted(item, opened))
            case Answered(exchange=number) if (record := self._records.get(number)) is not None:
                record.decoder = BodyDecoder(header(item.headers, "content-encoding"), MAX_BODY)
                at_ms = round(item.at_ms, 3)
                self._entries.append(replace(item, headers=_decoded(item.headers), at_ms=at_ms))
            case Closing(part=part) if (record := self._records.get(part.exchange)) is not None:
                self._flush(part.exchange, record, last=True)
                record.trouble = record.trouble or item.trouble
                self._entries.append(_closed(part, record.trouble))

    def _redacted(self, item: Opening, record: _Record) -> Opened:
        headers = item.part.headers
        encoding = header(headers, "content-encoding")
        body, problem = decode_body(b"".join(item.body), encoding, MAX_BODY)
        if problem is not None:
            # What cannot be looked into may hold anything.
            body = b""
            record.trouble = problem.replace(" ", "_")
        body = mask(hide_identities(body, self._pseudonyms), item.secrets)
        return replace(item.part, headers=_decoded(headers), body=body)

    def _keep(self, record: _Record, piece: Piece) -> None:
        data = record.decoder.feed(piece.data)
        if record.decoder.problem is not None:
            record.trouble = record.decoder.problem.replace(" ", "_")
        record.chunks.append(Chunk(round(piece.at_ms, 3), data))
        record.waiting_bytes += len(data)
        if record.waiting_bytes >= _FLUSH_BYTES or len(record.chunks) >= _FLUSH_CHUNKS:
            self._flush(piece.exchange, record)

    def _flush(self, number: int, record: _Record, last: bool = False) -> None:
        masked = record.mask.feed(record.chunks) if record.chunks else []
        if last:
            masked += record.mask.flush()
        if masked:
            self._entries.append(Chunks(number, tuple(masked)))
        record.chunks = []
        record.waiting_bytes = 0

    def _append(self) -> None:
        entries, self._entries = self._entries, []
        self._notice_removal()
        entries = [entry for entry in entries if entry.exchange in self._records]
        frames = [self._encode(entry) for entry in entries]
        whole = all(frames) and self.segments.append(b"".join(frames)) is None
        for entry in entries:
            record = self._records.get(entry.exchange)
            if record is None:
                continue
            if not whole:
                self._append_one(entry, record)
            if isinstance(entry, Opened):
                record.on_disk = True
            if isinstance(entry, Closed):
                self._settle(entry, record)

    def _encode(self, entry: _Entry) -> bytes:
        try:
            return self.segments.encode(entry)
        except ValueError:
            self._counters.fault()
            return b""

    def _append_one(self, entry: _Entry, record: _Record) -> None:
        """Append what fits, of each record its beginning."""
        if isinstance(entry, Closed):
            entry = _closed(entry, record.trouble)
        elif record.trouble is not None and not isinstance(entry, Opened):
            return
        frame = self._encode(entry)
        reason = self.segments.append(frame) if frame else "fault"
        if reason is not None:
            record.trouble = record.trouble or reason
            if isinstance(entry, Opened):
                self._lose(entry.exchange, reason)

    def _notice_removal(self) -> None:
        if self.segments.was_removed():
            for number, record in list(self._records.items()):
                if record.on_disk:
                    self._lose(number, "spool_removed")

    def _lose(self, number: int, reason: str) -> None:
        if self._records.pop(number, None) is not None:
            self._counters.lost(reason)

    def _settle(self, part: Closed, record: _Record) -> None:
        del self._records[part.exchange]
        if record.trouble is not None:
            self._counters.partial(record.trouble)
        elif part.ended != "complete":
            self._counters.partial(part.ended)
        else:
            self._counters.complete()


def _closed(part: Closed, trouble: str | None) -> Closed:
    end_ms = None if part.end_ms is None else round(part.end_ms, 3)
    ended = "proxy_stopped" if trouble is not None and part.ended == "complete" else part.ended
    return replace(part, ended=ended, end_ms=end_ms)


def _decoded(headers: Headers) -> Headers:
    """Headers of a body that is kept decoded."""
    return tuple(pair for pair in headers if pair[0] != "content-encoding")
