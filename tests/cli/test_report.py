"""agentx report: what it prints, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from agentx.cli import run
from tests.report import synthetic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return synthetic.run(2, 5, 2).write(tmp_path / "run")


def test_it_prints_where_the_page_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["report", str(folder), "--out", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert list(tmp_path.glob(".*")) == []


def test_json_names_the_page_and_its_runs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["report", str(folder), str(folder), "-o", str(page), "--json"]) == 0
    printed = orjson.loads(capsys.readouterr().out)
    assert printed["report"] == str(page)
    assert printed["bytes"] == page.stat().st_size
    assert [entry["requests"] for entry in printed["runs"]] == [10, 10]
    assert printed["runs"][0]["run"] == str(folder)


def test_a_page_of_ours_is_replaced_and_nothing_else_is(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["report", str(folder), "-o", str(page)]) == 0
    assert run(["report", str(folder), "-o", str(page)]) == 0
    table = folder / "requests.parquet"
    before = table.read_bytes()
    assert run(["report", str(folder), "-o", str(table)]) == 2
    assert table.read_bytes() == before
    assert "is no page of AgentX" in capsys.readouterr().err


def test_a_pipe_is_refused_and_not_waited_for(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(["report", str(folder), "-o", str(pipe)]) == 2
    assert "is no page of AgentX" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{tmp}/none", "-o", "{tmp}/x.html"], "{tmp}/none does not exist"),
        (["{tmp}", "-o", "{tmp}/x.html"], "{tmp} is no run"),
        (["{tmp}/run", "-o", "{tmp}"], "{tmp} is a folder: name a file in it"),
        (["{tmp}/run", "-o", "{tmp}/none/x.html"], "{tmp}/none is no folder"),
        (["{tmp}/run"] * 21 + ["-o", "{tmp}/x.html"], "21 runs are too many"),
        (["{tmp}/run"], "Missing option '-o'"),
        (["-o", "{tmp}/x.html"], "Missing argument 'RUN...'"),
    ],
)
def test_wrong_use_is_one_sentence(
    folder: Path,
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [argument.format(tmp=tmp_path) for argument in arguments]
    assert run(["report", *filled]) == 2
    printed = capsys.readouterr()
    assert words.format(tmp=tmp_path) in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("name", ["run.json", "requests.parquet", "telemetry.parquet"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "gone"])
def test_a_damaged_run_is_one_sentence(
    folder: Path, tmp_path: Path, name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100] if damage == "cut" else b"\xff" * 300)
    assert run(["report", str(folder), "-o", str(tmp_path / "x.html")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("agentx: ")
    assert str(folder) in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "x.html").exists()
