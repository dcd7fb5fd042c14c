"""Images, documents and audio as numbers: as many as a model would roughly count, always the same.

No server's true count is known here, so these tokens are assumed and counted apart
(`opaque_tokens`). The numbers come from the content alone: the same image gives the same ones.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentx.proxy_addons.wire.content import Media

MAX_TOKENS = 1600
_PIXELS_A_TOKEN = 750
_HEAD = 1 << 20
"""Bytes of an image that are searched for its size; a JPEG may hold a profile before it."""
_FIRST_NUMBER = 1 << 31


@dataclass(frozen=True, slots=True)
class Opaque:
    """What stands for media in the stream: `tokens` numbers drawn from `digest`."""

    digest: bytes
    tokens: int


def opaque(media: Media) -> Opaque:
    """Decode, measure and hash media."""
    data = _bytes(media)
    digest = hashlib.sha256(data).digest()
    size = image_size(data) if media.image and media.data is not None else None
    if size is None or size[0] * size[1] == 0:
        return Opaque(digest, MAX_TOKENS)
    return Opaque(digest, min(-(-size[0] * size[1] // _PIXELS_A_TOKEN), MAX_TOKENS))


def numbers(what: Opaque) -> NDArray[np.uint32]:
    """The numbers in the stream, each above 2^31, where no vocabulary reaches."""
    drawn = hashlib.shake_256(what.digest).digest(4 * what.tokens)
    return np.frombuffer(drawn, dtype="<u4").astype(np.uint32) | np.uint32(_FIRST_NUMBER)


def _bytes(media: Media) -> bytes:
    if media.data is not None:
        try:
            return base64.b64decode(media.data)
        except (binascii.Error, ValueError):
            return media.data.encode("utf-8", "replace")
    named = media.text if media.text is not None else media.reference
    return (named or "").encode("utf-8", "replace")


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG, JPEG, GIF or WebP; None where it tells none."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return _pair(">II", data, 16)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _pair("<HH", data, 6)
        if data.startswith(b"\xff\xd8"):
            return _jpeg_size(data[:_HEAD])
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp_size(data)
    except (struct.error, IndexError):
        pass  # the header is cut off
    return None


def _pair(form: str, data: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, at)
    return first, second


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        while data[at] != 0xFF:
            at += 1
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _pair(">HH", data, at + 3)
            return width, height
        if marker == 0xD9 or marker == 0xDA:
            return None  # the picture begins, or ends, without a size
        if marker != 0x01 and not 0xD0 <= marker <= 0xD8:
            at += max(struct.unpack_from(">H", data, at)[0], 2)


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _pair("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width = int.from_bytes(data[24:27], "little") + 1
            height = int.from_bytes(data[27:30], "little") + 1
            return (width, height) if len(data) >= 30 else None
    return None
