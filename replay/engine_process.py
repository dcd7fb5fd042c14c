"""The embedded engine: `agentx engine` as a process of its own, which ends when we do."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator

import orjson

from agentx.replay.errors import ReplayError
from agentx.replay.exchange import short

START_S = 30.0
STOP_S = 5.0


@contextlib.asynccontextmanager
async def embedded_engine(
    *, kv_tokens: int | None = None, speed: float | None = None
) -> AsyncIterator[str]:
    """Start an engine on a free port, give its address, and end it with the block.

    It holds the reading end of a pipe of ours and ends when that closes, so that it does not
    outlive this process, whatever ends it.

    Raises:
        ReplayError: it did not start.
    """
    command = [sys.executable, "-P", "-m", "agentx", "engine", "--port", "0", "--json"]
    command.append("--until-stdin-closes")
    if kv_tokens is not None:
        command += ["--kv-tokens", str(kv_tokens)]
    if speed is not None:
        command += ["--speed", repr(speed)]
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            # Of its own session: Ctrl-C is for us, and we still have requests to finish then.
            start_new_session=True,
        )
        try:
            url = await _address(process)
            if url is None:
                complaints.seek(0)
                said = short(complaints.read(4096).decode("utf-8", "replace"))
                raise ReplayError(f"the embedded engine did not start: {said or 'it said nothing'}")
            yield url
        finally:
            await _end(process)


async def _address(process: asyncio.subprocess.Process) -> str | None:
    """What the engine says when it listens; None if it does not."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            document = orjson.loads(await process.stdout.readline())
    except (TimeoutError, ValueError):
        return None
    url = document.get("url") if isinstance(document, dict) else None
    return url if isinstance(url, str) else None


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
