"""Media as numbers: sizes from headers, the same content the same numbers."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.media import image_size, numbers, opaque
from agentx.proxy_addons.wire.content import Media
from tests.captured import unhurried


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\xf7"


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF" + bytes(10)
    tables = b"\xff\xc4" + struct.pack(">H", 5) + b"\xff\xc0\xff"
    fill = b"\xff\xff"
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + b"\x03"
    return b"\xff\xd8" + app + tables + fill + frame


def webp_lossy(width: int, height: int) -> bytes:
    frame = b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height | 0x4000)
    return b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0" + frame


def webp_lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", bits)


def webp_extended(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0" + bytes(4) + size


MAKERS = [png, gif, jpeg, webp_lossy, webp_lossless, webp_extended]
makers = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def image(data: bytes) -> Media:
    return Media(image=True, data=base64.b64encode(data).decode())


@makers
@unhurried
@given(width=st.integers(1, 16_383), height=st.integers(1, 16_383))
def test_a_header_tells_the_size(make: object, width: int, height: int) -> None:
    assert callable(make)
    assert image_size(make(width, height)) == (width, height)


@makers
def test_a_header_that_is_cut_off_tells_nothing(make: object) -> None:
    assert callable(make)
    whole = make(640, 480)
    for end in range(len(whole) - 2):
        assert image_size(whole[:end]) in (None, (640, 480))
    assert image_size(whole[:10]) in (None, (640, 480))


@unhurried
@given(st.binary(max_size=60), st.sampled_from([make(9, 9)[:14] for make in MAKERS]))
def test_no_header_is_too_odd(data: bytes, start: bytes) -> None:
    image_size(start + data)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(750, 1, 1), (751, 1, 2), (1000, 750, 1000), (1, 1, 1), (4000, 3000, 1600), (0, 5, 1600)],
)
def test_tokens_of_an_image(width: int, height: int, tokens: int) -> None:
    assert opaque(image(png(width, height))).tokens == tokens


@pytest.mark.parametrize(
    "media",
    [
        Media(image=True, data="AAAA"),
        Media(image=True, data="not base64!"),
        Media(image=True, reference="https://example.test/a.png"),
        Media(image=False, data=base64.b64encode(png(10, 10)).decode()),
        Media(image=False, text="a document"),
        Media(image=False),
    ],
)
def test_what_tells_no_size_takes_the_most(media: Media) -> None:
    assert opaque(media).tokens == 1600


def test_the_numbers_follow_the_decoded_bytes() -> None:
    wrapped = base64.encodebytes(png(75, 10)).decode()
    one, same = opaque(image(png(75, 10))), opaque(Media(image=True, data=wrapped))
    other = opaque(image(png(75, 10) + b"!"))
    assert one == same
    assert numbers(one).tolist() == numbers(same).tolist()
    assert len(numbers(other)) == len(numbers(one)) == 1
    assert numbers(other).tolist() != numbers(one).tolist()
