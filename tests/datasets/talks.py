"""Small conversations as an agent would send them, and the sessions that they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from agentx.datasets.build import build
from agentx.datasets.parquet.reader import open_dataset
from agentx.datasets.trace.model import Session
from agentx.proxy_addons.wire.exchange import Ended, Exchange
from tests.captured import exchange, write_spool

BASH = {"name": "Bash", "input_schema": {"type": "object"}}
TASK = {"name": "Task", "input_schema": {"type": "object"}}
TOOLS = (BASH, TASK)
SYSTEM = "You are an agent that works on this project with care."

Message = dict[str, Any]


def user(*texts: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def said(*content: str | dict[str, Any]) -> Message:
    """An assistant's message: its texts and calls."""
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"role": "assistant", "content": blocks}


def call(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any) -> Message:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {"role": "user", "content": [block]}


def ask(
    messages: Sequence[Message],
    answer: Message | None,
    *,
    at: float,
    took: float | None = 100.0,
    session: str | None = "s",
    agent: str | None = None,
    tools: Sequence[dict[str, Any]] = TOOLS,
    system: str | list[dict[str, Any]] = SYSTEM,
    ended: Ended = "complete",
    status: int | None = 200,
    path: str = "/v1/messages",
    **body: Any,
) -> Exchange:
    """One request, `at` milliseconds after the first, and its answer."""
    headers = {}
    if session is not None:
        headers["x-claude-code-session-id"] = session
    if agent is not None:
        headers["x-claude-code-agent-id"] = agent
    content = [] if answer is None else answer["content"]
    calls = any(block["type"] == "tool_use" for block in content)
    stop = "tool_use" if calls else "end_turn"
    reply = {"type": "message", "model": "m", "content": content, "stop_reason": stop}
    whole = answer is not None and status is not None and status < 400
    return exchange(
        {"model": "m", "system": system, "tools": tools, "messages": messages, **body},
        path=path,
        headers=headers,
        at_ms=at,
        status=status,
        answer=orjson.dumps(reply) if whole else b"",
        ended=ended,
        end_ms=took,
    )


def built(folder: Path, exchanges: Iterable[Exchange]) -> list[Session]:
    """The sessions of a data set built from a spool of these exchanges, in order of starting."""
    spool, dataset = folder / "spool", folder / "dataset"
    write_spool(spool, exchanges)
    build([spool], dataset, overwrite=True)
    return sorted(open_dataset(dataset).sessions(), key=lambda session: session.start_ms or 0)


def one(folder: Path, exchanges: Iterable[Exchange]) -> Session:
    """The only session."""
    (session,) = built(folder, exchanges)
    return session
