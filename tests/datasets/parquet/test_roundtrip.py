from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet import schema, writer
from agentx.datasets.parquet.info import Counts, DatasetInfo, Dropped
from agentx.datasets.parquet.reader import Dataset, open_dataset
from agentx.datasets.parquet.writer import DatasetWriter
from agentx.datasets.trace.model import Session
from tests.datasets.made import Namer, Turn, make_session, turns

INFO = DatasetInfo(block_size=16, hash_scope="dataset")
ONE = make_session([Turn((0, 1)), Turn((0, 1, 2), rest=3)])


def write(out: Path, sessions: list[Session], info: DatasetInfo = INFO) -> Dataset:
    with DatasetWriter(out, info) as made:
        for session in sessions:
            made.add(session)
    return open_dataset(out)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "data"


def left_over(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


@settings(max_examples=30, deadline=None)
@given(st.lists(turns, min_size=1, max_size=4), st.integers(1, 12), st.booleans())
def test_sessions_come_back_as_they_were(
    made: list[list[Turn]], group_rows: int, segments: bool
) -> None:
    namer = Namer()
    sessions = [
        make_session(one, name=f"s{number}", namer=namer, start_ms=number, segments=segments)
        for number, one in enumerate(made)
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_ROWS", group_rows)
        dataset = write(Path(folder) / "data", sessions)
        assert list(dataset.sessions()) == sessions
        for index in reversed(range(len(sessions))):
            assert dataset.load(index) == sessions[index]
        assert [entry.session_id for entry in dataset.entries] == [s.session_id for s in sessions]
        assert [entry.requests for entry in dataset.entries] == [len(s.requests) for s in sessions]
        assert dataset.info.counts.blocks == len(namer.known)


def test_every_field_comes_back(out: Path) -> None:
    request = replace(
        ONE.requests[1],
        waits_for=(0,),
        spawned_by=0,
        model="a-model",
        first_output_ms=1200,
        end_ms=1500,
        think_ms=0,
        think_source_ms=-400,
        think_kind="tool",
        opaque_tokens=1,
        input_tokens=2,
        cached_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=5,
        output_context_tokens=6,
        tail_id=3,
        prefix_breakers=("space", "call_id"),
        status="partial",
        stop_reason="tool_use",
        error="broken",
        tool_names=(),
        edge_evidence="prefix",
        edge_confidence=0.5,
        input_types=("text",),
        output_types=("thinking", "tool_use"),
        streamed=True,
    )
    agent = replace(
        ONE.agents[0],
        spawned_by=0,
        agent_type="Explore",
        start_ms=1,
        end_ms=2,
        duration_ms=3,
        status="completed",
        entry=4,
        tool_tokens=5,
        system_tokens=6,
        total_tokens=7,
        tool_use_count=8,
    )
    session = replace(
        ONE, requests=(ONE.requests[0], request), agents=(agent,), start_ms=9, contributor=10
    )
    assert list(write(out, [session]).sessions()) == [session]


def test_info_comes_back_with_counts(out: Path) -> None:
    info = DatasetInfo(
        block_size=64,
        hash_scope="local",
        provenance={"format": "weka", "licence": "Apache-2.0"},
        dropped={"json_that_is_no_trace": Dropped(2, "files")},
    )
    session = make_session([Turn((0, 1), agent=2), Turn((2,), tail=True)], block_size=64)
    found = write(out, [session], info).info
    counts = Counts(sessions=1, agents=2, subagents=1, requests=2, blocks=4)
    assert found == replace(info, counts=counts)


def test_a_dataset_holds_no_path_and_no_time(out: Path) -> None:
    write(out, [ONE])
    for path in out.iterdir():
        assert str(out.parent).encode() not in path.read_bytes()
    for name in ("sessions", "agents", "requests"):
        metadata = pq.ParquetFile(out / f"{name}.parquet").metadata
        assert metadata.metadata is None


def test_the_card_names_each_table(out: Path) -> None:
    write(out, [make_session([Turn((1,))], segments=True)])
    card = (out / "README.md").read_text(encoding="utf-8")
    front = card.split("---")[1]
    for name in schema.TABLES:
        assert f"- config_name: {name}\n  data_files: {name}.parquet" in front
    assert "license:" not in front


def test_there_is_no_segment_table_without_segments(out: Path) -> None:
    write(out, [ONE])
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "agents.parquet", "agentx.json", "requests.parquet", "sessions.parquet",
    ]  # fmt: skip


def test_tables_have_the_promised_columns(out: Path) -> None:
    write(out, [ONE])
    found = pq.ParquetFile(out / "requests.parquet").schema_arrow
    assert found.names == schema.REQUESTS.names
    assert {"session_id", "request", "waits_for", "append_start", "tail_id"} <= set(found.names)


def test_load_reads_only_the_row_group_it_needs(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_ROWS", 2)
    namer = Namer()
    sessions = [
        make_session([Turn((n,)), Turn((n, n))], name=f"s{n}", namer=namer) for n in range(9)
    ]
    dataset = write(out, sessions)
    read: list[int] = []
    whole = pq.ParquetFile.read_row_group

    def counted(self: Any, number: int, *args: Any, **named: Any) -> Any:
        if named["columns"] == schema.REQUESTS.names:
            read.append(number)
        return whole(self, number, *args, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    assert dataset.load(5) == sessions[5]
    assert read == [5]


def test_sessions_may_be_loaded_by_many_threads(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_ROWS", 2)
    namer = Namer()
    sessions = [
        make_session([Turn((n,)), Turn((n, n))], name=f"s{n}", namer=namer) for n in range(40)
    ]
    dataset = write(out, sessions)
    places = [7 * number % 40 for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(dataset.load, places)) == [sessions[place] for place in places]


def test_out_that_is_not_empty_is_refused(out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match=r"not empty.*--overwrite"):
        write(out, [ONE])
    with pytest.raises(DatasetError, match="more than a data set"), DatasetWriter(out, INFO, True):
        pass
    assert (out / "notes.txt").read_text() == "mine"
    assert left_over(out) == ["data"]


def test_out_that_is_a_file_is_refused(out: Path) -> None:
    out.write_text("mine")
    with pytest.raises(DatasetError, match="is a file"):
        write(out, [ONE])
    assert out.read_text() == "mine"


def test_an_empty_folder_is_filled(out: Path) -> None:
    out.mkdir()
    assert len(write(out, [ONE])) == 1
    assert left_over(out) == ["data"]


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    assert len(write(tmp_path / "a" / "b" / "data", [ONE])) == 1
    assert left_over(tmp_path / "a") == ["a"]


def test_overwrite_replaces_a_dataset_at_the_end_only(out: Path) -> None:
    write(out, [ONE])
    other = make_session([Turn((0,))], name="other")
    with DatasetWriter(out, INFO, overwrite=True) as made:
        made.add(other)
        assert list(open_dataset(out).sessions()) == [ONE]
    assert list(open_dataset(out).sessions()) == [other]
    assert left_over(out) == ["data"]


def fail_halfway(out: Path, error: type[BaseException], overwrite: bool = False) -> None:
    with DatasetWriter(out, INFO, overwrite) as made:
        made.add(make_session([Turn((0,))], name="other"))
        raise error


def test_a_failed_overwrite_keeps_what_was_there(out: Path) -> None:
    write(out, [ONE])
    with pytest.raises(RuntimeError):
        fail_halfway(out, RuntimeError, overwrite=True)
    assert list(open_dataset(out).sessions()) == [ONE]
    assert left_over(out) == ["data"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, DatasetError])
def test_nothing_is_left_of_a_failure(out: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        fail_halfway(out, error)
    assert left_over(out) == []


def test_nothing_is_left_when_the_disk_is_full(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        write(out, [ONE])
    assert left_over(out) == []


def test_a_data_set_without_sessions_is_none(out: Path) -> None:
    with pytest.raises(DatasetError, match="no session"):
        write(out, [])
    assert left_over(out) == []


def wrong_sessions() -> Iterator[tuple[str, Session]]:
    first, second = ONE.requests

    def with_second(**changes: Any) -> Session:
        return replace(ONE, requests=(first, replace(second, **changes)))

    yield "its number is 7", with_second(request=7)
    yield "agent 'nobody'", with_second(agent_id="nobody")
    yield "unknown kind", with_second(kind="chat")
    yield "unknown status", with_second(status="fine")
    yield "unknown think_kind", with_second(think_kind="coffee")
    yield "unknown edge_evidence", with_second(edge_evidence="hope")
    yield "parent 1 is no earlier", with_second(parent=1)
    yield "parent -1 is no earlier", with_second(parent=-1)
    yield "spawned_by 5", with_second(spawned_by=5)
    yield "waits_for", with_second(waits_for=(1,))
    yield "keep_blocks 3", with_second(keep_blocks=3)
    yield "keep_blocks -1", with_second(keep_blocks=-1)
    yield "keep_blocks is missing", with_second(keep_blocks=None)
    yield "keep_tokens 99", with_second(keep_tokens=99)
    yield "its runs hold 2 blocks instead of 1", with_second(append=((2,), (2,)))
    yield "without blocks", with_second(append=((2, 5), (1, 0)))
    yield "out of range", with_second(append=((-2,), (1,)))
    yield "differ in length", with_second(append=((2,), ()))
    yield "3 full blocks do not fit", with_second(context_tokens=47)
    yield "context_tokens is -1", with_second(context_tokens=-1)
    yield "output_tokens is -5", with_second(output_tokens=-5)
    yield "sent_ms is -1", with_second(sent_ms=-1)
    yield "tail_id is -1", with_second(tail_id=-1)
    yield "neither a parent", with_second(parent=None)
    yield "keeps something", with_second(parent=None, keyframe=True)
    yield "not within", with_second(blocks=1 << 30, context_tokens=1 << 40)
    yield "block integer 3 is out of order", with_second(append=((3,), (1,)))
    yield "block integer 9 is out of order", with_second(tail_id=9)
    yield "same agent_id", replace(ONE, agents=ONE.agents * 2)


@pytest.mark.parametrize(("message", "session"), list(wrong_sessions()))
def test_a_session_that_does_not_fit_together_is_refused(
    out: Path, message: str, session: Session
) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        write(out, [session])
    assert "session one" in str(caught.value)
    assert left_over(out) == []


def test_two_sessions_of_one_name_are_refused(out: Path) -> None:
    with pytest.raises(DatasetError, match="two sessions"):
        write(out, [ONE, ONE])


def test_agentx_json_is_read_by_machines(out: Path) -> None:
    write(out, [ONE])
    document = orjson.loads((out / "agentx.json").read_bytes())
    assert document["format_version"] == schema.FORMAT_VERSION
    assert document["counts"]["requests"] == 2
    assert document["tokenizer"] is None
