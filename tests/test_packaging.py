"""The package shadows nobody's names and holds what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT

LINKS = ("datasets", "replay", "proxy_addons")


def run_python(code: str, cwd: Path) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_datasets_is_hugging_faces(tmp_path: Path) -> None:
    code = "import datasets; print(datasets.load_dataset.__module__, datasets.__file__)"
    module, file = run_python(code, tmp_path).split()
    assert module.startswith("datasets.")
    assert Path(file).parent != ROOT / "datasets"


@pytest.mark.parametrize("name", LINKS)
def test_subpackages_are_imported_below_agentx(name: str, tmp_path: Path) -> None:
    found = run_python(f"import agentx.{name} as m; print(m.__name__)", tmp_path)
    assert found == f"agentx.{name}"


def test_the_test_run_itself_does_not_shadow_datasets() -> None:
    found = import_module("datasets").__file__
    assert found is not None
    assert Path(found).parent != ROOT / "datasets"


def test_a_copy_without_its_links_says_so(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "agentx", tmp_path / "agentx", ignore=shutil.ignore_patterns(*LINKS))
    done = subprocess.run(
        [sys.executable, "-m", "agentx", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
    )
    assert done.returncode == 1
    assert "git clone" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_wheel_holds_real_files(tmp_path: Path) -> None:
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    wheel = run_python(code, ROOT).splitlines()[-1]
    names = set(zipfile.ZipFile(tmp_path / wheel).namelist())
    for expected in (
        "agentx/datasets/trace/model.py",
        "agentx/replay/words.txt",
        "agentx/proxy_addons/wire/exchange.py",
        "agentx/py.typed",
    ):
        assert expected in names
    assert not [name for name in names if not name.startswith(("agentx/", "agentx_replay-"))]
    samples = [name for name in names if name.startswith("agentx/datasets/samples/trace_")]
    assert len(samples) == 3
