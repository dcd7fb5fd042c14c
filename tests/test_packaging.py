"""The package shadows nobody's names and holds what it needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT


def run_python(code: str, cwd: Path) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("name", ["datasets", "replay", "proxy_addons", "tests"])
def test_top_level_names_are_not_ours(name: str, tmp_path: Path) -> None:
    code = (
        "import importlib.util as u\n"
        f"spec = u.find_spec({name!r})\n"
        "print(spec.origin or list(spec.submodule_search_locations) if spec else '')"
    )
    assert str(ROOT) not in run_python(code, tmp_path)


@pytest.mark.parametrize("name", ["datasets", "replay", "proxy_addons"])
def test_subpackages_are_imported_below_agentx(name: str, tmp_path: Path) -> None:
    found = run_python(f"import agentx.{name} as m; print(m.__name__)", tmp_path)
    assert found == f"agentx.{name}"


def test_the_test_run_itself_does_not_shadow_datasets() -> None:
    import importlib.util

    spec = importlib.util.find_spec("datasets")
    assert spec is None or str(ROOT) not in str(spec.origin)


@pytest.mark.slow
def test_wheel_holds_real_files(tmp_path: Path) -> None:
    hatchling = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    assert hatchling
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
