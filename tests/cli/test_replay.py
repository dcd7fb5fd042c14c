"""`agentx replay`: wrong use is one sentence and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentx.cli import run
from agentx.datasets.importer import import_weka


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, fixtures_dir: Path) -> Path:
    out = tmp_path_factory.mktemp("data") / "dataset"
    import_weka(fixtures_dir / "weka" / "trace_0546.json.gz", out)
    return out


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == 0
    page = capsys.readouterr().out
    assert "agentx replay DATASET --engine-speed 100 --sessions 4" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sessions", "0"], "--sessions"),
        (["--max-requests", "0"], "--max-requests"),
        (["--think", "soon"], "'recorded', 'none' or seconds"),
        (["--think", "-1"], "'recorded', 'none' or seconds"),
        (["--think", "nan"], "'recorded', 'none' or seconds"),
        (["--max-context", "0"], "--max-context"),
        (["--engine-speed", "0"], "--engine-speed"),
        (["--kv-tokens", "1"], "--kv-tokens"),
        (["--seed", "-1"], "--seed"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "inf"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--url", "localhost:8000"], "localhost:8000"),
        (["--url", "http://127.0.0.1:9", "--kv-tokens", "1000"], "--kv-tokens"),
        (["--url", "http://127.0.0.1:9/v1"], "http://127.0.0.1:9/v1"),
    ],
)
def test_wrong_use_is_one_sentence_and_no_folder(
    options: list[str],
    words: str,
    dataset: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    assert run(["replay", str(dataset), *options, "-o", str(folder)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not folder.exists()


def test_a_folder_that_is_there_is_left_alone(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(dataset), "-o", str(tmp_path)]) == 2
    assert f"{tmp_path} exists already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path)]) == 2
    assert f"{tmp_path} is no data set" in capsys.readouterr().err
