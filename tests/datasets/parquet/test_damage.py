"""What is no data set, or no longer one, is refused with a sentence that says where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet import schema, table
from agentx.datasets.parquet.info import DatasetInfo
from agentx.datasets.parquet.reader import open_dataset
from agentx.datasets.parquet.writer import DatasetWriter
from tests.datasets.made import Namer, Turn, make_session

TABLES = ("sessions.parquet", "agents.parquet", "requests.parquet", "segments.parquet")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    namer = Namer()
    with DatasetWriter(tmp_path / "data", DatasetInfo(16, "local")) as made:
        for number in range(3):
            turns = [Turn((0, 1), rest=3), Turn((0,), agent=1), Turn((0, 1, 2, 2), rest=1)]
            name = f"s{number}"
            made.add(make_session(turns, name=name, namer=namer, segments=True))
    return tmp_path / "data"


def read_all(folder: Path) -> int:
    return sum(len(session.requests) for session in open_dataset(folder).sessions())


def change_info(folder: Path, **changes: Any) -> None:
    path = folder / "agentx.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | changes))


def change_table(
    folder: Path,
    name: str,
    change: Callable[[dict[str, list[Any]]], object],
    nullable: bool = False,
) -> None:
    """Rewrite a table as somebody else might have."""
    path = folder / f"{name}.parquet"
    columns = pq.read_table(path).to_pydict()
    change(columns)
    kept = [field for field in schema.TABLES[name] if field.name in columns]
    if nullable:
        kept = [field.with_nullable(True) for field in kept]
    pq.write_table(pa.table(columns, schema=pa.schema(kept)), path)


def test_it_reads_before_it_is_damaged(data: Path) -> None:
    assert read_all(data) == 9
    change_table(data, "requests", lambda columns: None)
    assert read_all(data) == 9


def test_a_folder_that_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"is no data set.*agentx import"):
        open_dataset(tmp_path)
    with pytest.raises(DatasetError, match="does not exist"):
        open_dataset(tmp_path / "nowhere")
    (tmp_path / "file").write_text("{}")
    with pytest.raises(DatasetError, match="is no data set"):
        open_dataset(tmp_path / "file")


def test_a_newer_version_is_named(data: Path) -> None:
    change_info(data, format_version=schema.FORMAT_VERSION + 1)
    with pytest.raises(DatasetError, match=r"format version 2 .*reads up to 1; install a newer"):
        open_dataset(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": "1"},
        {"format_version": True},
        {"block_size": 0},
        {"block_size": 1 << 40},
        {"hash_scope": "galaxy"},
        {"publish_level": "all"},
        {"tokenizer": 5},
        {"counts": {}},
        {"counts": []},
        {"dropped": {"why": {"count": -1, "what": "files"}}},
        {"dropped": {"why": 5}},
        {"provenance": None},
    ],
)
def test_a_wrong_agentx_json_is_damaged(data: Path, changes: dict[str, Any]) -> None:
    change_info(data, **changes)
    with pytest.raises(DatasetError, match=r"agentx\.json is damaged"):
        open_dataset(data)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{" * 5000, b" " * (2 << 20)])
def test_an_agentx_json_that_is_none(data: Path, content: bytes) -> None:
    (data / "agentx.json").write_bytes(content)
    with pytest.raises(DatasetError, match=r"agentx\.json is damaged"):
        open_dataset(data)


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table(data: Path, name: str) -> None:
    (data / name).unlink()
    with pytest.raises(DatasetError, match=f"{name} is missing"):
        read_all(data)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("keep", [0, 3, 50, -1, -9])
def test_a_truncated_table(data: Path, name: str, keep: int) -> None:
    content = (data / name).read_bytes()
    (data / name).write_bytes(content[:keep])
    with pytest.raises(DatasetError, match=f"{name} is damaged"):
        read_all(data)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(TABLES), st.data())
def test_flipped_bytes_are_found_or_harmless(data: Path, name: str, choose: st.DataObject) -> None:
    path = data / name
    content = bytearray(path.read_bytes())
    for _ in range(choose.draw(st.integers(1, 4))):
        content[choose.draw(st.integers(0, len(content) - 1))] ^= 1 << choose.draw(
            st.integers(0, 7)
        )
    original = path.read_bytes()
    path.write_bytes(content)
    refused = ""
    try:
        read_all(data)
    except DatasetError as error:
        refused = str(error)
    finally:
        path.write_bytes(original)
    assert not refused or str(data) in refused


@pytest.mark.parametrize("name", ["session_id", "parent", "append_len", "tail_id"])
def test_a_missing_column(data: Path, name: str) -> None:
    change_table(data, "requests", lambda columns: columns.pop(name))
    with pytest.raises(DatasetError, match=f"has no column {name}"):
        open_dataset(data)


def test_a_column_of_another_type(data: Path) -> None:
    path = data / "requests.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("context_tokens")
    text = table.column("context_tokens").cast(pa.string())
    pq.write_table(table.set_column(place, "context_tokens", text), path)
    with pytest.raises(DatasetError, match="column context_tokens is string, not int64"):
        open_dataset(data)


def test_a_value_that_must_not_be_null(data: Path) -> None:
    change_table(
        data, "requests", lambda c: c["context_tokens"].__setitem__(4, None), nullable=True
    )
    with pytest.raises(DatasetError, match="column context_tokens has rows without a value"):
        read_all(data)


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("parent", 2, 2, "session s0, request 2: parent 2 is no earlier request"),
        ("parent", 5, 1, "session s1, request 2: parent 1 is another agent's"),
        ("append_len", 2, [-1], "without blocks"),
        ("append_len", 2, [1 << 30], "its runs hold 1073741824 blocks instead of 2"),
        ("append_start", 2, [-1], "out of range"),
        ("append_start", 2, [1 << 61], "out of range"),
        ("append_start", 2, [1 << 50], "is out of order"),
        ("keep_blocks", 2, 3, "keep_blocks 3 is more"),
        ("blocks", 2, 1 << 30, "not within 0 and"),
        ("blocks", 2, 200, "200 full blocks do not fit"),
        ("request", 2, 1, "its number is 1"),
        ("kind", 2, "chat", "unknown kind"),
        ("agent_id", 2, "ghost", "agent 'ghost'"),
        ("session_id", 2, "s1", "are not where"),
        ("tail_id", 2, 1 << 50, "is out of order"),
    ],
)
def test_rows_that_do_not_fit_together(
    data: Path, column: str, row: int, value: object, message: str
) -> None:
    change_table(data, "requests", lambda columns: columns[column].__setitem__(row, value))
    with pytest.raises(DatasetError, match=message) as caught:
        read_all(data)
    assert str(data) in str(caught.value)


def test_tables_of_two_data_sets(data: Path) -> None:
    change_table(data, "requests", lambda columns: [c.pop() for c in columns.values()])
    with pytest.raises(DatasetError, match="not of one data set"):
        open_dataset(data)


def test_session_counts_that_do_not_add_up(data: Path) -> None:
    change_table(data, "sessions", lambda columns: columns["requests"].__setitem__(0, 4))
    with pytest.raises(DatasetError, match="counts 10 requests"):
        open_dataset(data)
    change_table(data, "sessions", lambda columns: columns.update(requests=[-1, 5, 5]))
    with pytest.raises(DatasetError, match="session s0 has -1 requests"):
        open_dataset(data)


def test_agents_whose_rows_are_scattered(data: Path) -> None:
    def scatter(columns: dict[str, list[Any]]) -> None:
        columns["session_id"][0], columns["session_id"][-1] = "s2", "s0"

    change_table(data, "agents", scatter)
    with pytest.raises(DatasetError, match="not together"):
        read_all(data)


def test_a_row_group_that_is_too_large_to_read_whole(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MAX_GROUP_ROWS", 8)
    with pytest.raises(DatasetError, match=r"row group 0 has 9 rows .*more than AgentX writes"):
        open_dataset(data)
