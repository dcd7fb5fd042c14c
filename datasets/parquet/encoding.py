"""How the columns are written: as measured to be smallest on real traces.

Text and the few numbers that repeat go into dictionaries, what counts up is stored as differences,
everything else plain: zstd finds more in plain numbers than in their differences. Statistics cost
more than they find in tables that are read whole. BYTE_STREAM_SPLIT would take a tenth less, but
DuckDB 1.x cannot read it for whole numbers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ZSTD_LEVEL = 19
PAGE_BYTES = 8 << 20
"""Larger than a row group's column, so that each is one page and one zstd frame."""

_COUNTS_UP = frozenset({"request", "parent", "sent_ms", "waits_for"})
_REPEATS = frozenset({"think_source_ms", "tool_tokens", "system_tokens"})


def options(columns: pa.Schema) -> dict[str, Any]:
    """Arguments of `ParquetWriter` for a table."""
    dictionary: list[str] = []
    encodings: dict[str, str] = {}
    for field in columns:
        nested = pa.types.is_list(field.type)
        path = f"{field.name}.list.element" if nested else field.name
        kind = field.type.value_type if nested else field.type
        if field.name in _REPEATS or (pa.types.is_string(kind) and field.name != "session_id"):
            dictionary.append(path)
        elif field.name in _COUNTS_UP:
            encodings[path] = "DELTA_BINARY_PACKED"
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "use_dictionary": dictionary,
        "column_encoding": encodings or None,
        "data_page_size": PAGE_BYTES,
        "dictionary_pagesize_limit": PAGE_BYTES,
        "write_statistics": False,
        "write_page_checksum": True,
        # Arrow's own copy of the schema is 5 kB that Parquet's says again.
        "store_schema": False,
    }
