"""`agentx build` as a user types it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from agentx.cli import run
from tests.captured import exchange, write_spool
from tests.datasets.talks import ask, said, user

ASKED = [
    exchange(method="HEAD", path="/"),
    ask([user("Please list the files.")], said("Which ones?"), at=0),
]


def test_a_document_for_machines_and_a_line_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = write_spool(tmp_path / "spool", ASKED)
    out = tmp_path / "dataset"
    assert run(["build", str(spool), "-o", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    document = orjson.loads(printed.out)
    assert document["dataset"] == str(out)
    assert document["private"] == f"{out}.private"
    assert document["exchanges"] == 2
    assert document["counts"]["requests"] == document["counts"]["sessions"] == 1
    assert document["dropped"] == {"no_model_call": {"count": 1, "what": "exchanges"}}
    assert "not built: 1 exchanges (no_model_call)" in printed.err

    assert run(["build", str(spool), "-o", str(out), "--overwrite"]) == 0
    assert "1 sessions, 1 requests, 0 subagents" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere", "-o", "out"], "nowhere does not exist"),
        (["empty", "-o", "out"], "empty is no spool"),
        (["noise", "-o", "out"], "no call of a model"),
        (["spool", "-o", "full"], "exists and is not empty"),
        (["spool", "-o", "out", "--key", "short"], "holds no hash key"),
        (["spool", "-o", "out", "--key", "empty"], "Is a directory"),
        (["spool"], "Missing option '-o'"),
        (["-o", "out"], "Missing argument 'SPOOL...'"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_spool(tmp_path / "spool", ASKED)
    write_spool(tmp_path / "noise", ASKED[:1])
    (tmp_path / "empty").mkdir()
    (tmp_path / "short").write_bytes(b"no key")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    before = sorted(tmp_path.iterdir())
    assert run(["build", *arguments]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.strip().count("\n") == 0
    assert printed.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", "--help"]) == 0
    assert "agentx build spool/ -o dataset" in capsys.readouterr().out
