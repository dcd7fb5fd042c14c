"""Server-sent events, decoded piece by piece as the bytes come.

The rules are those of the HTML standard: lines end with LF, CRLF or CR, `data` lines of one event
are joined by a newline, comments and unknown fields are no events, a byte order mark may stand
first. What an event means is its dialect's business.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""A longer event is dropped and counted, so that a stream without an end cannot fill memory."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event. `data` is UTF-8 as sent, not checked: JSON parsers take bytes."""

    event: str
    """`message` where the stream names none."""
    data: bytes


class SseDecoder:
    """An incremental decoder: however the bytes are split, the events are the same."""

    __slots__ = ("_after_cr", "_held", "_max", "_overflow", "_parts", "_start", "oversized")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._parts: list[bytes] = []  # the event that has no blank line yet
        self._held = 0  # bytes in _parts
        self._overflow = False  # that event is too long already; its bytes are let go
        self._after_cr = False  # the last byte was CR: an LF that follows belongs to it
        self._start = True
        self.oversized = 0
        """Events that were dropped because they were too long."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take more bytes; return the events that they complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 0x0A:
                data = data[1:]
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data[-1] == 0x0D
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._start and not (data := self._without_bom(data)):
            return []
        parts = self._parts
        if b"\n\n" not in data and not (data[0] == 0x0A and parts and parts[-1][-1] == 0x0A):
            self._hold(data)
            return []
        if parts:
            data = b"".join(parts) + data
            parts.clear()
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        self._held = 0
        if self._overflow:
            self._overflow = False
            self.oversized += 1
            del blocks[0]
        events = [event for block in blocks if (event := self._event(block)) is not None]
        if rest:
            self._hold(rest)
        return events

    def tail(self) -> bytes:
        """The bytes of an event that has not ended (line ends as LF); none if it is too long."""
        return b"" if self._overflow else b"".join(self._parts)

    def close(self) -> SseEvent | None:
        """The event that the stream's end cut off, as far as it came.

        By the standard it is no event. Its data may be whole all the same (a server that leaves
        out the last blank line), so whoever can tell, because it parses, may use it.
        """
        tail = self.tail()
        self.oversized += self._overflow
        self._parts.clear()
        self._held = 0
        self._overflow = False
        return self._event(tail) if tail else None

    def _without_bom(self, data: bytes) -> bytes:
        """The stream's first bytes without their mark; empty while that cannot be told."""
        data = b"".join(self._parts) + data
        self._parts.clear()
        self._held = 0
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._hold(data)
            return b""
        self._start = False
        return data.removeprefix(_BOM)

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        # One byte more than an event may have: the first line end of its closing blank line.
        if self._overflow or self._held > self._max + 1:
            self._overflow = True
            data = data[-1:]
            self._parts.clear()
        self._parts.append(data)

    def _event(self, block: bytes) -> SseEvent | None:
        if len(block) > self._max:
            self.oversized += 1
            return None
        if block.startswith(b"data: ") and b"\n" not in block:  # the usual case
            return SseEvent("message", block[6:])
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.removeprefix(b" ")
        if not data:
            return None
        return SseEvent(name.decode("utf-8", "replace") or "message", b"\n".join(data))
