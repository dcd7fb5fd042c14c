"""Runs are read from their folders, finished or killed, and named for the page."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from agentx.replay.errors import ReplayError
from agentx.report.view import load_runs
from tests.report import synthetic


def test_a_finished_run_is_read_as_it_was_made(tmp_path: Path) -> None:
    made = synthetic.run()
    (read,) = load_runs([made.write(tmp_path / "first")])
    assert read.name == "first"
    assert read.aggregate == made.view().aggregate
    assert read.rows.ttft_ms.tolist() == made.view().rows.ttft_ms.tolist()
    assert read.gaps is not None
    assert ("server", "vllm:kv_cache_usage_perc") in read.telemetry


def test_a_killed_runs_figures_are_worked_out_and_its_client_is_unknown(tmp_path: Path) -> None:
    made = synthetic.run()
    made.head["scaled"] = 4.0
    (read,) = load_runs([made.write(tmp_path / "killed", killed=True)])
    finished = made.view().aggregate
    assert read.aggregate["ttft_ms"] == finished["ttft_ms"]
    assert read.aggregate["requests"] == finished["requests"]
    assert read.aggregate["client"] == {"send_lag_ms": finished["client"]["send_lag_ms"]}


def test_a_killed_run_with_a_hole_in_a_row_is_one_sentence(tmp_path: Path) -> None:
    made = synthetic.run(1, 2, 1)
    made.requests[0]["intended_ms"] = None
    with pytest.raises(ReplayError, match="damaged"):
        load_runs([made.write(tmp_path / "killed", killed=True)])


def test_runs_of_one_name_are_named_by_their_paths(tmp_path: Path) -> None:
    made = synthetic.run(1, 2, 1)
    folders = [made.write(tmp_path / "a" / "run"), made.write(tmp_path / "b" / "run")]
    other = made.write(tmp_path / "other")
    assert [view.name for view in load_runs([*folders, other])] == [
        str(folders[0]),
        str(folders[1]),
        "other",
    ]


@pytest.mark.parametrize("scaled", [0, -1, "fast", None, True])
def test_a_scale_that_is_none_is_a_real_clock(tmp_path: Path, scaled: object) -> None:
    folder = synthetic.run(1, 2, 1).write(tmp_path / "run")
    document = orjson.loads((folder / "run.json").read_bytes()) | {"scaled": scaled}
    (folder / "run.json").write_bytes(orjson.dumps(document))
    assert load_runs([folder])[0].time_scale is None
