"""The embedded engine as a process: it starts, it ends with us, and a failure to start is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentx.replay.engine_process import embedded_engine
from agentx.replay.errors import ReplayError
from agentx.replay.transport import HttpTransport


async def test_it_serves_while_the_block_runs_and_not_after() -> None:
    async with (
        embedded_engine(kv_tokens=1600, speed=2.0) as url,
        HttpTransport(url, stall_s=5) as transport,
    ):
        page = await transport.get(url + "/v1/models", timeout_s=20)
        [model] = page.document()["data"]
        assert model["max_model_len"] == 1600
        assert model["agentx"]["speed"] == 2
    async with HttpTransport(url, stall_s=5) as transport:
        with pytest.raises(OSError, match="onnect"):
            await transport.get(url + "/v1/models", timeout_s=20)


def instead(script: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another program in the place of Python."""
    script.write_text(f"#!{sys.executable}\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr("agentx.replay.engine_process.sys.executable", str(script))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.exit('no room for me')", "no room for me"),
        ("print('hello')", "it said nothing"),
        ("print('{\"port\": 7}')", "it said nothing"),
        ("import time; time.sleep(60)", "it said nothing"),
    ],
)
async def test_one_that_does_not_start_is_one_sentence(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentx.replay.engine_process.START_S", 1.0)
    monkeypatch.setattr("agentx.replay.engine_process.STOP_S", 0.1)
    instead(tmp_path / "python", text, monkeypatch)
    with pytest.raises(ReplayError, match=f"did not start: {words}"):
        async with embedded_engine():
            pass
