"""Columns of a data set's tables, their types and how they are encoded.

The names are a promise to whoever opens the folder (docs/dataset.md); they change only with
`FORMAT_VERSION`.
"""

from __future__ import annotations

import pyarrow as pa

FORMAT_VERSION = 1
"""Written to agentx.json. A reader refuses a higher one."""

_NAME = pa.string()
_COUNT = pa.int64()
_MS = pa.int64()
_INDEX = pa.int32()


def _list(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item, nullable=False))


def _table(filled: str, **columns: pa.DataType) -> pa.Schema:
    """A schema; the columns named in `filled` have a value in every row."""
    always = frozenset(filled.split())
    return pa.schema(
        [pa.field(name, kind, nullable=name not in always) for name, kind in columns.items()]
    )


SESSIONS = _table(
    "session_id source requests",
    session_id=_NAME,
    start_ms=_MS,
    contributor=_INDEX,
    source=_NAME,
    requests=_INDEX,
)
"""One row a session, in the order in which their requests are stored; `requests` counts them."""

AGENTS = _table(
    "session_id agent_id",
    session_id=_NAME,
    agent_id=_NAME,
    spawned_by=_INDEX,
    agent_type=_NAME,
    start_ms=_MS,
    end_ms=_MS,
    duration_ms=_MS,
    status=_NAME,
    entry=_INDEX,
    tool_tokens=_COUNT,
    system_tokens=_COUNT,
    total_tokens=_COUNT,
    tool_use_count=_COUNT,
)

REQUESTS = _table(
    "session_id request agent_id kind context_tokens blocks keyframe append_start append_len "
    "status",
    session_id=_NAME,
    request=_INDEX,
    parent=_INDEX,
    waits_for=_list(_INDEX),
    agent_id=_NAME,
    spawned_by=_INDEX,
    kind=_NAME,
    model=_NAME,
    sent_ms=_MS,
    first_output_ms=_MS,
    end_ms=_MS,
    think_ms=_MS,
    think_source_ms=_MS,
    think_kind=_NAME,
    context_tokens=_COUNT,
    opaque_tokens=_COUNT,
    input_tokens=_COUNT,
    cached_tokens=_COUNT,
    cache_write_tokens=_COUNT,
    output_tokens=_COUNT,
    reasoning_tokens=_COUNT,
    output_context_tokens=_COUNT,
    keep_tokens=_COUNT,
    keep_blocks=_INDEX,
    blocks=_INDEX,
    keyframe=pa.bool_(),
    append_start=_list(pa.int64()),
    append_len=_list(_INDEX),
    tail_id=pa.int64(),
    prefix_breakers=_list(_NAME),
    status=_NAME,
    stop_reason=_NAME,
    error=_NAME,
    tool_names=_list(_NAME),
    edge_evidence=_NAME,
    edge_confidence=pa.float32(),
    input_types=_list(_NAME),
    output_types=_list(_NAME),
    streamed=pa.bool_(),
)
"""One row a request, all of a session's together, by `request`."""

SEGMENTS = _table(
    "session_id request position kind tokens",
    session_id=_NAME,
    request=_INDEX,
    position=_INDEX,
    kind=_NAME,
    tokens=_COUNT,
    tool_name=_NAME,
)
"""What each request appends; absent in an import that has no segments."""

TABLES = {"sessions": SESSIONS, "agents": AGENTS, "requests": REQUESTS, "segments": SEGMENTS}
"""By name; the file is `<name>.parquet`."""

PREFIX_COLUMNS = ("parent", "keep_blocks", "keyframe", "append_start", "append_len")
