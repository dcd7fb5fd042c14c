from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from agentx.cli import run
from agentx.datasets.parquet.reader import open_dataset
from tests.datasets.formats.weka_made import request, subagent, trace, write

TWO = [request(0, [1, 2]), subagent(30, [request(0, [9])]), request(40, [1, 2, 3])]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(tmp_path / "traces" / "a.json", trace(TWO))
    return tmp_path / "traces"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "data"


def weka(*arguments: Path | str) -> int:
    return run(["import", "weka", *map(str, arguments)])


def test_it_says_what_was_imported(
    source: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(source / "other.json", {"a": 1})
    assert weka(source, "-o", out) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}: 1 sessions, 3 requests, 1 subagents, 4 blocks of 64 tokens\n"
    assert said.err == f"{source / 'other.json'}: skipped, it is no weka trace\n"
    assert len(open_dataset(out)) == 1


def test_json_is_one_document(source: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(source / "other.json", {"a": 1})
    assert weka(source, "-o", out, "--json", "--licence", "MIT") == 0
    document = orjson.loads(capsys.readouterr().out)
    assert document["dataset"] == str(out)
    assert document["counts"]["requests"] == 3
    assert document["dropped"] == {"json_that_is_no_trace": {"count": 1, "what": "files"}}
    assert document["provenance"]["licence"] == "MIT"


def test_it_overwrites_only_when_told(
    source: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert weka(source, "-o", out) == 0
    assert weka(source, "-o", out) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert weka(source, "-o", out, "--overwrite") == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"block_size": 64, "requests": [', "b.json is no whole JSON document"),
        (b'{"block_size": 64, "requests": [{}]}', "b.json, request 0: in is missing"),
    ],
)
def test_a_wrong_trace_is_one_sentence_and_status_2(
    source: Path, out: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (source / "b.json").write_bytes(content)
    assert weka(source, "-o", out, "--json") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in out.parent.iterdir()) == ["traces"]


def test_out_is_needed(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert weka(source) == 2
    assert "--out" in capsys.readouterr().err


def test_a_source_within_the_data_set_that_it_would_replace_is_kept(
    source: Path, out: Path
) -> None:
    assert weka(source, "-o", out) == 0
    inside = write(out / "traces.json", trace(TWO))
    assert weka(inside, "-o", out, "--overwrite") == 2
    assert inside.exists()


FULL_DISK = """
import resource, sys
from agentx.cli import run
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
sys.exit(run(sys.argv[1:]))
"""


def test_a_full_disk_leaves_nothing(source: Path, out: Path) -> None:
    """A limit on the size of a file fails a write as a full disk does."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "import", "weka", str(source), "-o", str(out)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 2
    assert done.stderr == f"agentx: {out}: File too large.\n"
    assert sorted(path.name for path in out.parent.iterdir()) == ["traces"]


STOPS_AT_LAST = """
import sys
from agentx.cli import run
from agentx.datasets.formats import weka
whole = weka.to_session
def to_session(trace, numbers, name):
    if name == "last":
        print("here", flush=True)
        sys.stdin.read()
    return whole(trace, numbers, name)
weka.to_session = to_session
sys.exit(run(sys.argv[1:]))
"""


def test_a_terminated_import_leaves_nothing(source: Path, out: Path) -> None:
    write(source / "b.json", trace(TWO, id="last"))
    with subprocess.Popen(
        [sys.executable, "-c", STOPS_AT_LAST, "import", "weka", str(source), "-o", str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert any(path.name.startswith(".data-unfinished-") for path in out.parent.iterdir())
        process.terminate()
        assert process.wait(timeout=30) == 143
    assert sorted(path.name for path in out.parent.iterdir()) == ["traces"]
