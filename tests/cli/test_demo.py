"""agentx demo: its table and its words, with runs made by hand in the engine's place."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx.cli import run
from agentx.datasets import importer
from agentx.datasets.parquet.reader import Dataset
from agentx.replay import conduct
from agentx.replay.aggregate import ClientState
from agentx.replay.options import Options
from tests.report import synthetic


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What the demo asks of its replays; each is a run that was made by hand."""
    options: list[Options] = []

    async def made_by_hand(
        dataset: Dataset, folder: Path, wanted: Options, *, say: Callable[[str], None], show: Any
    ) -> conduct.Outcome:
        options.append(wanted)
        made = synthetic.run(lanes=wanted.sessions, seed=wanted.sessions)
        made.head["scaled"] = wanted.engine_speed
        made.head["configuration"] = {"sessions": wanted.sessions}
        for row in made.requests:
            row |= {"engine_ttft_ms": 40.0, "engine_tpot_ms": 8.25}
        if wanted.sessions == 3:
            synthetic.fail(made.requests[0], "timeout", "no byte in 600 s")
            made.client = ClientState([0.2], 10_000.0, 100.0)
        made.write(folder)
        return conduct.Outcome(folder, made.document(), None)

    monkeypatch.setattr(conduct, "conduct", made_by_hand)
    return options


def test_it_replays_at_several_concurrencies_and_prints_a_table_and_the_page(
    asked: list[Options], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert run(["demo", "-o", str(folder)]) == 0
    assert [options.sessions for options in asked] == [1, 2, 3]
    assert len({(options.kv_tokens, options.engine_speed, options.seed) for options in asked}) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert max(map(len, lines[:5])) <= 80
    rows = [line.split() for line in lines[2:5]]
    assert [row[:2] for row in rows] == [["1", "120/120"], ["2", "120/120"], ["3", "119/120"]]
    assert all("40.0 ms" in line and "8.25 ms" in line for line in lines[2:5])
    assert lines[-1] == f"Report: {folder / 'report.html'}"
    words = " ".join(printed.out.split())
    assert "100 times faster than life" in words
    assert "think time was capped at 1 s" in words
    assert "Client-bound at 3 at once" in words
    assert "119 answered, 1 failed" in printed.err
    assert "three bundled traces" in printed.err


def test_everything_is_in_the_folder(asked: list[Options], tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "demo"
    assert run(["demo", "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {
        "dataset",
        "sessions-1",
        "sessions-2",
        "sessions-3",
        "report.html",
    }
    page = (folder / "report.html").read_text()
    assert all(f"sessions-{sessions}" in page for sessions in (1, 2, 3))


def test_json_has_every_levels_figures(
    asked: list[Options], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert run(["demo", "-o", str(folder), "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert [level["sessions_at_once"] for level in document["levels"]] == [1, 2, 3]
    assert document["report"] == str(folder / "report.html")
    assert document["dataset"] == str(folder / "dataset")
    for level in document["levels"]:
        stored = orjson.loads((Path(level["run"]) / "run.json").read_bytes())
        assert stored["aggregate"]["ttft_ms"] == level["ttft_ms"]


def test_without_a_name_it_makes_a_new_folder_under_runs(
    asked: list[Options], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo"]) == 0
    assert run(["demo"]) == 0
    made = list((tmp_path / "runs").iterdir())
    assert len(made) == 2
    assert all(folder.name.startswith("demo-") for folder in made)


def test_a_folder_that_exists_is_refused_and_left_alone(
    asked: list[Options], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"agentx: {tmp_path} exists already: name a new folder with -o.\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert asked == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_demo_that_ends_before_it_has_made_anything_leaves_no_folder(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(importer, "import_weka", ends)
    folder = tmp_path / "demo"
    assert run(["demo", "-o", str(folder)]) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert not folder.exists()


def test_a_demo_that_is_interrupted_later_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(conduct, "conduct", interrupted)
    folder = tmp_path / "demo"
    assert run(["demo", "-o", str(folder)]) == 130
    assert [path.name for path in folder.iterdir()] == ["dataset"]


def test_a_stopped_replay_ends_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stopped(dataset: Dataset, folder: Path, wanted: Options, **_: Any) -> conduct.Outcome:
        made = synthetic.run(1, 3, 1)
        made.complete = False
        made.write(folder)
        return conduct.Outcome(folder, made.document(), signal.SIGINT)

    monkeypatch.setattr(conduct, "conduct", stopped)
    folder = tmp_path / "demo"
    assert run(["demo", "-o", str(folder)]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"Stopped by SIGINT; what had ended is in {folder}." in printed.err
    assert not (folder / "report.html").exists()
