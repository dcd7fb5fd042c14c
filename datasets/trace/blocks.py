"""Chained block hashes: a block is named by itself and all that stands before it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 16
DIGEST_SIZE = 16
_FIRST = bytes(DIGEST_SIZE)


def chain(tokens: NDArray[np.uint32], key: bytes, before: bytes | None = None) -> list[bytes]:
    """The hashes of the full blocks of `tokens`, in order.

    `before` is the hash of the block that precedes them (None at a context's start), so that
    only what a request adds need be hashed. Tokens after the last full block have no hash.
    `key` has 1 to 64 bytes.
    """
    data = tokens.astype("<u4", copy=False).tobytes()
    size = 4 * BLOCK_SIZE
    last = _FIRST if before is None else before
    keyed = hashlib.blake2b(digest_size=DIGEST_SIZE, key=key)
    hashes = []
    for start in range(0, len(data) - size + 1, size):
        block = keyed.copy()
        block.update(last)
        block.update(data[start : start + size])
        last = block.digest()
        hashes.append(last)
    return hashes
