"""A real `agentx capture` process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

ROOT = Path(__file__).parent.parent


class CaptureProcess:
    """`async with CaptureProcess(upstream.url, spool) as proxy`; killed if it is not stopped."""

    def __init__(
        self,
        upstream: str,
        spool: Path,
        *options: str,
        through: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.spool = spool
        self.port = 0
        self.said: list[str] = []
        """Lines on stderr."""
        self._environment = os.environ | {"PYTHONSAFEPATH": "1"} | dict(environment or {})
        self._command = [
            *through,
            *(sys.executable, "-m", "agentx", "capture", "--json"),
            *("--listen", "127.0.0.1:0", "--upstream", f"fake={upstream}", "--spool", str(spool)),
            *options,
        ]

    async def __aenter__(self) -> CaptureProcess:
        self.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=self._environment,
            # Its own group: what a shell started for it is ended with it.
            start_new_session=True,
        )
        assert self.process.stderr is not None
        while not self.port:
            line = (await self.process.stderr.readline()).decode()
            assert line, f"capture did not start: {self.said}"
            self.said.append(line)
            if line.startswith("Listening on http://127.0.0.1:"):
                self.port = int(line.split(",")[0].rpartition(":")[2])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.communicate()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def ended(self) -> dict[str, Any]:
        """Its JSON document, once it has ended with status 0."""
        out, err = await self.process.communicate()
        self.said += err.decode().splitlines(keepends=True)
        assert self.process.returncode == 0, self.said
        assert not any("Traceback" in line for line in self.said), self.said
        document = orjson.loads(out)
        assert isinstance(document, dict)
        return document

    async def stop(self) -> dict[str, Any]:
        self.signal()
        return await self.ended()

    async def kill(self) -> None:
        """As the kernel would, out of memory."""
        self.process.kill()
        await self.process.wait()
