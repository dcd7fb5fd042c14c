"""The data card: what a data set's README.md says, and how Hugging Face finds its tables."""

from __future__ import annotations

from collections.abc import Sequence

from agentx.datasets.parquet.info import DatasetInfo

CARD_FILE = "README.md"

_TABLES = {
    "requests": "one row a request: its place in the tree, times, tokens, prefix",
    "sessions": "one row a session",
    "agents": "one row an agent of a session",
    "segments": "what each request appends to its context",
}
_SCOPES = {
    "local": "equal integers in two sessions do not occur",
    "global": "equal integers in two sessions are equal prefixes, as the source says",
    "dataset": "equal integers are equal prefixes in the whole data set",
}


def data_card(info: DatasetInfo, tables: Sequence[str]) -> str:
    """README.md: YAML that names each table for `load_dataset(folder, table)`, then prose."""
    lines = ["---", "pretty_name: Coding agents' requests as prefix-aware traces"]
    if "licence" in info.provenance:
        lines.append(f"license: {info.provenance['licence'].lower()}")
    lines.append("configs:")
    for name in _TABLES:
        if name in tables:
            lines += [f"- config_name: {name}", f"  data_files: {name}.parquet"]
            lines += ["  default: true"] if name == "requests" else []
    counts = info.counts
    lines += [
        "---",
        "",
        "# Coding agents' requests as prefix-aware traces",
        "",
        f"{counts.sessions:,} sessions, {counts.requests:,} requests, "
        f"{counts.subagents:,} subagents, {counts.blocks:,} distinct blocks of "
        f"{info.block_size} tokens. Level `{info.publish_level}`"
        + (": no text." if info.publish_level == "shapes" else "."),
        "",
        "| table | holds |",
        "| --- | --- |",
        *(f"| `{name}.parquet` | {holds} |" for name, holds in _TABLES.items() if name in tables),
        "",
        "A request's context is a list of block integers; an integer stands for a block and all "
        f"before it, so that {_SCOPES[info.hash_scope]}. A row stores what it keeps of its "
        "parent's list (`keep_blocks`) and what follows, as runs (`append_start`, `append_len`); "
        "where `keyframe` is true the runs are the whole list.",
        "",
        "Times are milliseconds from the session's start. What is unknown is null, never 0.",
        "",
        "Made by AgentX, which reads it back: `agentx stats FOLDER`, `agentx replay FOLDER`.",
        "",
    ]
    return "\n".join(lines)
