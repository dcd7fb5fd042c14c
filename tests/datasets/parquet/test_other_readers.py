"""A data set's folder is opened as it is by what others use."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from agentx.datasets.importer import import_weka
from agentx.datasets.parquet.reader import Dataset, open_dataset
from agentx.datasets.parquet.schema import REQUESTS


@pytest.fixture(scope="module")
def dataset(fixtures_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("readers") / "data"
    import_weka(fixtures_dir / "weka", out)
    return open_dataset(out)


@pytest.mark.parametrize("table", ["sessions", "agents", "requests"])
def test_hugging_face_loads_each_table_by_name(
    dataset: Dataset, table: str, tmp_path: Path
) -> None:
    # By name: to a type checker, with the repository as its path, `datasets` is our folder.
    loaded = import_module("datasets").load_dataset(
        str(dataset.folder), table, split="train", cache_dir=str(tmp_path)
    )
    assert loaded.num_rows == getattr(dataset.info.counts, table)


def test_duckdb_reads_runs_and_nulls(dataset: Dataset) -> None:
    query = (
        "select count(*), sum(context_tokens), sum(len(append_start)), count(input_tokens) "
        f"from '{dataset.folder / 'requests.parquet'}'"
    )
    (row,) = duckdb.connect().execute(query).fetchall()
    requests = [request for session in dataset.sessions() for request in session.requests]
    assert row == (
        len(requests),
        sum(request.context_tokens for request in requests),
        sum(len(request.append[0]) for request in requests),
        0,
    )


def test_pandas_reads_every_column(dataset: Dataset) -> None:
    frame = pd.read_parquet(dataset.folder / "requests.parquet")
    assert list(frame.columns) == REQUESTS.names
    first = next(dataset.sessions()).requests[0]
    assert frame["context_tokens"][0] == first.context_tokens
    assert list(frame["append_len"][0]) == list(first.append[1])
    assert frame["cached_tokens"].isna().all()
