"""Weka traces made up for tests, in both writers' forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from agentx.datasets.formats.files import Record
from agentx.datasets.formats.weka import BlockNumbers, to_session
from agentx.datasets.formats.weka_fields import parse
from agentx.datasets.trace.model import Session

Json = dict[str, Any]


def request(t: float, ids: list[int], **fields: Any) -> Json:
    """A streamless request whose context is those blocks and 5 tokens more."""
    made = {
        "t": t,
        "type": "n",
        "model": "m",
        "in": len(ids) * 64 + 5,
        "out": 10,
        "hash_ids": ids,
        "input_types": ["tool_result"],
        "output_types": ["tool_use"],
        "stop": "tool_use",
        "api_time": 2.0,
        "think_time": 1.0,
    } | fields
    return {name: value for name, value in made.items() if value is not ...}


def subagent(t: float, requests: list[Json], **fields: Any) -> Json:
    return {
        "t": t,
        "type": "subagent",
        "agent_id": "agent_001",
        "subagent_type": "Explore",
        "duration_ms": 20_000,
        "total_tokens": 9,
        "tool_use_count": 3,
        "status": "completed",
        "requests": requests,
        "models": ["m"],
        "tool_tokens": 100,
        "system_tokens": 20,
    } | fields


def trace(requests: list[Json], **fields: Any) -> Json:
    return {
        "id": "one",
        "models": ["m"],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 1000,
        "system_tokens": 200,
        "requests": requests,
    } | fields


def session(document: Json, numbers: BlockNumbers | None = None) -> Session:
    """The session that a trace becomes, read from its bytes as an import does."""
    data = orjson.dumps(document)
    has_bools = b"true" in data or b"false" in data
    parsed = parse(Record(orjson.loads(data), "a.json", "a", has_bools))
    return to_session(parsed, numbers or BlockNumbers(), parsed.session_id)


def write(path: Path, *documents: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(map(orjson.dumps, documents)))
    return path


def as_inferencex(document: Json) -> Json:
    """A kv-cache-tester trace as InferenceX's builder would have written it.

    A subagent's `t` is its start and its requests count from the session's start; entries stand by
    their start; ids count from 0; `think_time` is the gap to the previous row of the session.
    """
    entries: list[Json] = []
    for original in document["requests"]:
        entry = dict(original)
        if entry["type"] == "subagent":
            duration = entry["duration_ms"]
            start = round(entry["t"] - (duration or 0) / 1000, 3)
            rows = [row | {"t": round(start + row["t"], 3)} for row in entry["requests"]]
            entry |= {"t": start, "requests": rows, "tool_use_count": None}
        entries.append(entry)
    entries.sort(key=lambda entry: float(entry["t"]))
    rows = [row for entry in entries for row in entry.get("requests", [entry])]
    rows.sort(key=lambda row: float(row["t"]))
    last: float | None = None
    for row in rows:
        row["hash_ids"] = [name - 1 for name in row["hash_ids"]]
        row.pop("think_time", None)
        if last is not None:
            row["think_time"] = max(row["t"] - last, 0.0)
        last = row["t"] + row.get("api_time", 0.0)
        for name in ("input_types", "output_types", "stop"):
            row.pop(name, None)
    kept = {name: document[name] for name in ("id", "models", "block_size", "hash_id_scope")}
    return kept | {"requests": entries}
