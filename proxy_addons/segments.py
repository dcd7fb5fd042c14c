"""Write a spool's segment files: append-only, this process's own, mode 0600.

What cannot be written is reported and never left half in a file: a segment is cut back to its
last whole frame, or, where even that fails, given up for a new one.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from agentx.proxy_addons import parts
from agentx.proxy_addons.errors import CaptureError
from agentx.proxy_addons.frames import FrameEncoder, header
from agentx.proxy_addons.spool import SUFFIX

KEY_FILE = "key"
KEY_BYTES = 32

_REASONS = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "file_too_large",
}


class SegmentWriter:
    """Appends frames to the newest of its segments. For one thread.

    `now_ms` is the wall clock in milliseconds. Raises OSError where the first segment cannot be
    made; later failures are what `append` returns.
    """

    def __init__(self, folder: Path, now_ms: Callable[[], float]) -> None:
        self.folder = folder
        self.writer = secrets.token_hex(8)
        self.segments = 0
        """Made so far."""
        self.bytes_written = 0
        self._now_ms = now_ms
        self._encoder = FrameEncoder()
        self._file: int | None = None
        self._end = 0
        """Where the last whole frame of the current segment ends."""
        self._fresh = True
        """Nothing but a segment's start would be won by beginning a new one."""
        self._start_segment()

    def encode(self, part: parts.Part) -> bytes:
        """A part as a frame."""
        return self._encoder.encode(parts.encode(part))

    def append(self, frames: bytes) -> str | None:
        """Append whole frames, all or none of them; None, or the reason why it was none."""
        if not frames:
            return None
        reason = self._write(frames)
        if reason is None or self._fresh:
            return reason
        # A limit may be of this one file, or the file may be gone: a new one is worth a try.
        self._give_up_segment()
        return self._write(frames)

    def was_removed(self) -> bool:
        """Whether somebody deleted the current segment, and with it what it held; then a new
        one is begun with the next frame."""
        if self._file is None or os.fstat(self._file).st_nlink:
            return False
        self._give_up_segment()
        return True

    def sync(self) -> None:
        """Have the disk keep what was written. Raises OSError."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Sync and close. Raises OSError."""
        try:
            self.sync()
        finally:
            self._give_up_segment()

    def _write(self, data: bytes) -> str | None:
        try:
            if self._file is None:
                self._start_segment()
            assert self._file is not None
            _write_all(self._file, data)
        except OSError as error:
            self._cut_back()
            return _reason(error)
        self._end += len(data)
        self._fresh = False
        self.bytes_written += len(data)
        return None

    def _cut_back(self) -> None:
        if self._file is None:
            return
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            self._give_up_segment()

    def _give_up_segment(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._fresh = True

    def _start_segment(self) -> None:
        started_ms = self._now_ms()
        start = parts.SegmentStart(self.writer, self.segments, started_ms)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{round(started_ms):013d}-{self.writer}-{self.segments:06d}{SUFFIX}"
        path = self.folder / name
        # O_EXCL: whatever the name, two processes never write one file.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            data = header() + self.encode(start)
            _write_all(file, data)
            _sync_folder(self.folder)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        self._file, self._end, self._fresh = file, len(data), True
        self.segments += 1
        self.bytes_written += len(data)


def open_folder(folder: Path) -> bytes:
    """Make a spool's folder (mode 0700) where there is none; its key, made with the folder.

    The key stays the same for all that write here, so that equal identifiers keep equal hashes.
    Raises CaptureError where the folder holds something else, OSError where it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise CaptureError(f"{folder} is not a folder; give --spool a new or an empty folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    others = [entry.name for entry in folder.iterdir() if not _is_ours(entry.name)]
    if others:
        raise CaptureError(
            f"{folder} holds other files ({sorted(others)[0]}); "
            "give --spool a new folder, an empty one, or an earlier spool"
        )
    return _key(folder / KEY_FILE)


def _is_ours(name: str) -> bool:
    return name.endswith(SUFFIX) or name == KEY_FILE or name.startswith(f".{KEY_FILE}-")


def _key(path: Path) -> bytes:
    """The key in this file, made if there is none; whoever comes second takes the first one's."""
    if not path.exists():
        draft = path.with_name(f".{KEY_FILE}-{secrets.token_hex(8)}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                _write_all(file, secrets.token_bytes(KEY_BYTES))
                os.fsync(file)
            finally:
                os.close(file)
            # A link, unlike a rename, leaves a key alone that another process made meanwhile.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise CaptureError(
            f"{path} is no key of {KEY_BYTES} bytes; put back the one that was there, "
            "or remove it to hash identifiers anew"
        )
    return key


def _sync_folder(folder: Path) -> None:
    """Have the disk keep a new file's name, without which its content is nowhere."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, "write_failed")
