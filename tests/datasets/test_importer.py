from __future__ import annotations

import gzip
import json
from pathlib import Path

import orjson
import pytest

from agentx.datasets.errors import DatasetError
from agentx.datasets.importer import import_weka
from agentx.datasets.parquet.info import Dropped
from agentx.datasets.parquet.reader import open_dataset
from agentx.datasets.parquet.schema import PREFIX_COLUMNS
from agentx.datasets.trace.block_runs import block_lists
from tests.datasets.formats.weka_made import request, subagent, trace, write

TWO = [request(0, [1, 2]), request(9, [1, 2, 3])]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "traces"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_files_of_every_kind(source: Path, out: Path) -> None:
    write(source / "a.json", trace(TWO, id="a"))
    write(source / "b" / "many.jsonl", trace(TWO, id="b"), trace(TWO, id="c"))
    content = orjson.dumps(trace(TWO, id="d"))
    (source / "d.json.gz").write_bytes(gzip.compress(content))
    (source / "e.jsonl.gz").write_bytes(gzip.compress(content.replace(b'"d"', b'"e"') + b"\n"))
    said: list[str] = []
    done: list[tuple[int, int]] = []
    info = import_weka(source, out, say=said.append, file_done=lambda *at: done.append(at))
    assert [entry.session_id for entry in open_dataset(out).entries] == list("abcde")
    assert info == open_dataset(out).info
    assert (info.counts.sessions, info.counts.requests, info.counts.blocks) == (5, 10, 15)
    assert (info.hash_scope, info.tokenizer, info.dropped) == ("local", None, {})
    assert said == []
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_single_file(source: Path, out: Path) -> None:
    import_weka(write(source / "a.json", trace(TWO)), out)
    assert len(open_dataset(out)) == 1


def test_json_that_is_no_trace_is_skipped_and_named(source: Path, out: Path) -> None:
    write(source / "a.json", trace(TWO))
    write(source / "figures.json", {"requests": 5})
    write(source / "mooncake.jsonl", {"timestamp": 0}, {"timestamp": 1})
    write(source / "empty.jsonl")
    said: list[str] = []
    info = import_weka(source, out, say=said.append)
    names = ("empty.jsonl", "figures.json", "mooncake.jsonl")
    assert said == [f"{source / name}: skipped, it is no weka trace" for name in names]
    assert info.dropped == {"json_that_is_no_trace": Dropped(3, "files")}


def test_a_trace_without_requests_is_skipped_and_named(source: Path, out: Path) -> None:
    write(source / "a.jsonl", trace([]), trace(TWO))
    said: list[str] = []
    info = import_weka(source, out, say=said.append)
    assert said == [f"{source / 'a.jsonl'}, line 1: skipped, it has no requests"]
    assert info.dropped == {"trace_without_requests": Dropped(1, "sessions")}


def test_sessions_of_one_name_get_two(source: Path, out: Path) -> None:
    write(source / "a.jsonl", trace(TWO), trace(TWO), trace(TWO, id="one-2"))
    said: list[str] = []
    import_weka(source, out, say=said.append)
    assert [e.session_id for e in open_dataset(out).entries] == ["one", "one-2", "one-2-2"]
    assert said[0].endswith("line 2: session one is here twice; now one-2")


def test_global_ids_are_shared_between_sessions(source: Path, out: Path) -> None:
    write(
        source / "a.jsonl",
        trace(TWO, id="a", hash_id_scope="global"),
        trace(TWO, id="b", hash_id_scope="global"),
    )
    info = import_weka(source, out)
    assert (info.hash_scope, info.counts.blocks) == ("global", 3)
    first, second = open_dataset(out).sessions()
    assert [b.tolist() for b in block_lists(first)] == [b.tolist() for b in block_lists(second)]


@pytest.mark.parametrize("name", ["b.json", "b.json.gz", "b.jsonl", "b.jsonl.gz"])
@pytest.mark.parametrize("keep", [0.05, 0.5, 0.99])
def test_a_truncated_trace_fails_and_nothing_is_left(
    source: Path, out: Path, name: str, keep: float
) -> None:
    write(source / "a.json", trace(TWO))
    content = orjson.dumps(trace(TWO))
    content = gzip.compress(content) if name.endswith(".gz") else content
    (source / name).write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(DatasetError, match=f"{name}(, line 1)? is no whole"):
        import_weka(source, out)
    assert sorted(path.name for path in out.parent.iterdir()) == ["traces"]


def test_a_wrong_trace_fails_and_names_where(source: Path, out: Path) -> None:
    write(source / "a.jsonl", trace(TWO), trace([*TWO, request(9, [1], out=-1)]))
    with pytest.raises(DatasetError, match=r"a\.jsonl, line 2, request 2: out is -1"):
        import_weka(source, out)
    assert not out.exists()


def test_a_line_that_is_no_trace_among_traces_fails(source: Path, out: Path) -> None:
    write(source / "a.jsonl", trace(TWO), {"timestamp": 0})
    with pytest.raises(DatasetError, match=r"a\.jsonl, line 2 is no weka trace"):
        import_weka(source, out)


def test_a_source_that_is_no_trace_fails(source: Path, out: Path) -> None:
    path = write(source / "figures.json", {"requests": 5})
    with pytest.raises(DatasetError, match=r"figures\.json is no weka trace"):
        import_weka(path, out)
    with pytest.raises(DatasetError, match="has no weka trace with requests in it"):
        import_weka(source, out)
    assert not out.exists()


def test_block_sizes_are_not_mixed(source: Path, out: Path) -> None:
    write(source / "a.jsonl", trace(TWO), trace(TWO, block_size=16))
    with pytest.raises(
        DatasetError, match=r"line 2 has blocks of 16 tokens, those before it of 64"
    ):
        import_weka(source, out)
    assert not out.exists()


def test_the_licence_goes_into_the_card(source: Path, out: Path) -> None:
    write(source / "a.json", trace([request(0, [1]), subagent(30, [request(0, [9])])]))
    info = import_weka(source, out, licence="Apache-2.0")
    assert info.provenance == {"format": "weka", "licence": "Apache-2.0"}
    assert "license: apache-2.0" in (out / "README.md").read_text(encoding="utf-8")


def test_a_dataset_says_nothing_of_where_it_came_from(source: Path, out: Path) -> None:
    write(source / "a.json", trace(TWO))
    write(source / "other.json", {})
    import_weka(source, out)
    assert str(source) not in json.dumps(orjson.loads((out / "agentx.json").read_bytes()))


def prefix_bytes(path: Path) -> int:
    import pyarrow.parquet as pq

    metadata = pq.ParquetFile(path).metadata
    chunks = (
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    )
    return sum(
        chunk.total_compressed_size
        for chunk in chunks
        if chunk.path_in_schema.split(".")[0] in PREFIX_COLUMNS
    )


@pytest.mark.shared
def test_a_dataset_is_a_fraction_of_its_traces(shared_dir: Path, out: Path) -> None:
    folder = shared_dir / "traces" / "weka"
    import_weka(folder, out)
    source = sum(path.stat().st_size for path in folder.glob("trace_*.json.gz"))
    tables = sum(path.stat().st_size for path in out.glob("*.parquet"))
    assert tables <= source / 16
    assert prefix_bytes(out / "requests.parquet") <= source / 72
