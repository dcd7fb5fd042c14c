"""Between the proxy and the writer: a queue bounded in bytes, and the writer's thread.

The proxy's side never waits: it asks whether there is room, and what there is none for is not
recorded. The thread writes what came at short intervals, and has the disk keep it once a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.writer import ExchangeWriter, Item

QUEUE_BYTES = 256 << 20
WRITE_EVERY_S = 0.2
SYNC_EVERY_S = 1.0

_ITEM_COST = 300
"""Bytes that an item takes in memory besides its data, roughly."""
_WAKE_BYTES = 4 << 20
_BATCH_BYTES = 16 << 20


class Recorder:
    """Takes items from one thread (the proxy's) and writes them in another."""

    def __init__(
        self, writer: ExchangeWriter, counters: Counters, queue_bytes: int = QUEUE_BYTES
    ) -> None:
        self._writer = writer
        self._counters = counters
        self._queue_bytes = queue_bytes
        self._queue: deque[tuple[Item, int]] = deque()
        # Each is changed by one thread only, so that neither needs a lock.
        self._reserved = 0
        self._written = 0
        self._wake = threading.Event()
        self._stopping = False
        # A daemon: a disk that hangs must not keep the proxy from ending.
        self._thread = threading.Thread(target=self._run, name="agentx-recorder", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def reserve(self, size: int) -> bool:
        """Whether there is room for so many bytes more; if so, they count from now on."""
        if self._reserved - self._written + size > self._queue_bytes:
            return False
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        """Give back what was reserved and will not be put."""
        self._reserved -= size

    def put(self, item: Item, reserved: int) -> None:
        """Hand an item over, for which so many bytes were reserved."""
        # What an item itself takes is not asked for but counted: ends have to get through.
        self._reserved += _ITEM_COST
        self._queue.append((item, reserved + _ITEM_COST))
        if self._reserved - self._written > _WAKE_BYTES and not self._wake.is_set():
            self._wake.set()

    def stop(self, timeout_s: float) -> bool:
        """Write what is queued and end; False where that took too long, and was given up."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        synced = time.monotonic()
        while True:
            self._wake.wait(WRITE_EVERY_S)
            self._wake.clear()
            stopping = self._stopping
            while self._queue:
                self._write_batch()
            if time.monotonic() - synced >= SYNC_EVERY_S:
                self._guarded(self._writer.sync)
                synced = time.monotonic()
            if stopping:
                self._guarded(self._writer.close)
                return

    def _write_batch(self) -> None:
        batch: list[Item] = []
        size = 0
        while self._queue and size < _BATCH_BYTES:
            item, cost = self._queue.popleft()
            batch.append(item)
            size += cost
        self._guarded(lambda: self._writer.write(batch))
        self._written += size

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            # The thread lives on: what comes next may well succeed.
            self._counters.fault()
