from __future__ import annotations

import contextlib
import io
import struct

import google_crc32c
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons import frames
from agentx.proxy_addons.frames import (
    MAX_PART,
    BadFrame,
    FrameEncoder,
    FrameReader,
    NewerSegment,
    NotASegment,
    header,
    read_header,
)
from tests.proxy_addons.spools import unhurried


def raw_frame(packed: bytes) -> bytes:
    length = struct.pack("<I", len(packed))
    return length + struct.pack("<I", google_crc32c.value(length + packed)) + packed


@unhurried
@given(st.lists(st.binary(max_size=300), max_size=5))
def test_parts_come_back(parts: list[bytes]) -> None:
    encoder = FrameEncoder()
    file = io.BytesIO(b"".join(encoder.encode(part) for part in parts))
    reader = FrameReader()
    assert [reader.read(file) for _ in parts] == parts
    assert reader.read(file) is None


def test_a_frame_is_what_the_document_says() -> None:
    frame = FrameEncoder().encode(b"a part")
    length, checksum = struct.unpack("<II", frame[:8])
    assert length == len(frame) - 8
    assert checksum == google_crc32c.value(frame[:4] + frame[8:])
    assert zstandard.decompress(frame[8:]) == b"a part"


@unhurried
@given(st.binary(min_size=1, max_size=100), st.data())
def test_no_flipped_bit_goes_unseen(part: bytes, data: st.DataObject) -> None:
    frame = bytearray(FrameEncoder().encode(part))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadFrame):
        FrameReader().read(io.BytesIO(bytes(frame)))


@unhurried
@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(junk: bytes) -> None:
    with contextlib.suppress(BadFrame):
        FrameReader().read(io.BytesIO(junk))


def test_a_frame_that_claims_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FrameReader()
    with pytest.raises(BadFrame, match="bytes long"):
        reader.read(io.BytesIO(struct.pack("<II", MAX_PART + 1, 0)))
    with pytest.raises(BadFrame, match="bytes long"):
        reader.read(io.BytesIO(bytes(4096)))  # what a crash leaves where a file had grown
    monkeypatch.setattr(frames, "MAX_PART", 1000)
    with pytest.raises(BadFrame, match="unpacks to"):
        reader.read(io.BytesIO(raw_frame(zstandard.compress(bytes(1001)))))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10))
    with pytest.raises(BadFrame, match="unpacks to"):
        reader.read(io.BytesIO(raw_frame(unsized)))
    with pytest.raises(BadFrame, match="not unpack"):
        reader.read(io.BytesIO(raw_frame(zstandard.compress(b"x") + b"more")))
    with pytest.raises(BadFrame, match="not unpack"):
        reader.read(io.BytesIO(raw_frame(b"no zstd")))
    with pytest.raises(ValueError, match="over the 1000"):
        FrameEncoder().encode(bytes(1001))


def test_headers() -> None:
    assert read_header(io.BytesIO(header()))
    assert not read_header(io.BytesIO(header()[:7]))
    assert not read_header(io.BytesIO(b""))
    for other in (b"PK\3\4", b"agentx-spool" + bytes(4), b"x" * 100):
        with pytest.raises(NotASegment):
            read_header(io.BytesIO(other))
    with pytest.raises(NewerSegment) as newer:
        read_header(io.BytesIO(b"agentx-spool" + struct.pack("<I", 2)))
    assert newer.value.args == (2,)
