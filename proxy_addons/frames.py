"""Frames of a segment file: {length, CRC32C, part as an ordinary zstd frame}, after one header.

A file is only ever appended to, so everything before its first bad frame is sound and everything
after it is not to be trusted. All integers are little-endian and unsigned; the checksum covers
the length too, so that a flipped bit there is found as well.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import google_crc32c
import zstandard

FORMAT_VERSION = 1
"""Of segment files. A reader refuses a higher one."""

MAX_BODY = 128 << 20
"""Bytes that are kept of one request's or one response's body."""

MAX_PART = MAX_BODY + (32 << 20)
"""Bytes of a part, unpacked: a whole body, and room for what is said of it."""

_HEADER = struct.Struct("<12sI")
_MAGIC = b"agentx-spool"
_FRAME = struct.Struct("<II")
_LENGTH = struct.Struct("<I")

HEADER_SIZE = _HEADER.size


class BadFrame(Exception):  # noqa: N818 - it is no fault of ours, but where the file ends
    """The bytes here are no whole frame; the file counts up to here."""


class NotASegment(Exception):  # noqa: N818
    """The file does not begin as a segment does."""


class NewerSegment(Exception):  # noqa: N818
    """The file is of a version that this program does not know; `args[0]` is the version."""


def header() -> bytes:
    """What a segment file begins with."""
    return _HEADER.pack(_MAGIC, FORMAT_VERSION)


def read_header(file: BinaryIO) -> bool:
    """Read a header; False where the file ends within it, as after a crash at its creation.

    Raises NotASegment, NewerSegment.
    """
    found = file.read(HEADER_SIZE)
    if len(found) < HEADER_SIZE:
        if not header().startswith(found):
            raise NotASegment
        return False
    magic, version = _HEADER.unpack(found)
    if magic != _MAGIC or version < 1:
        raise NotASegment
    if version > FORMAT_VERSION:
        raise NewerSegment(version)
    return True


class FrameEncoder:
    """Parts to frames. Keeps its compressor, which is costly to make; for one thread."""

    def __init__(self, level: int = 3) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level, write_content_size=True)

    def encode(self, part: bytes) -> bytes:
        """One frame; `part` is at most MAX_PART bytes."""
        if len(part) > MAX_PART:
            raise ValueError(f"a part of {len(part)} bytes is over the {MAX_PART} of a frame")
        packed = self._compressor.compress(part)
        length = _LENGTH.pack(len(packed))
        checksum = google_crc32c.extend(google_crc32c.value(length), packed)
        return _FRAME.pack(len(packed), checksum) + packed


class FrameReader:
    """Frames to parts, of bounded size whatever the bytes say. Files are given in binary mode."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()

    def read(self, file: BinaryIO) -> bytes | None:
        """The next part, or None at the file's end. Raises BadFrame."""
        head = file.read(_FRAME.size)
        if not head:
            return None
        if len(head) < _FRAME.size:
            raise BadFrame("a frame's head is cut off")
        length, checksum = _FRAME.unpack(head)
        if not 0 < length <= MAX_PART:
            raise BadFrame(f"a frame says that it is {length} bytes long")
        packed = file.read(length)
        if len(packed) < length:
            raise BadFrame("a frame is cut off")
        if google_crc32c.extend(google_crc32c.value(head[: _LENGTH.size]), packed) != checksum:
            raise BadFrame("a frame's checksum is wrong")
        return self._unpack(packed)

    def _unpack(self, packed: bytes) -> bytes:
        try:
            # -1: the writer of this frame did not say; 0 means empty and unknown alike elsewhere.
            size = zstandard.frame_content_size(packed)
            if not 0 <= size <= MAX_PART:
                raise BadFrame(f"a frame says that it unpacks to {size} bytes")
            return self._decompressor.decompress(packed, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise BadFrame("a frame does not unpack") from error
