from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from agentx.cli import run
from agentx.datasets.importer import import_weka
from agentx.datasets.samples import sample_folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stats") / "data"
    with sample_folder() as folder:
        import_weka(folder, out)
    return out


def test_json_has_the_keys_that_others_rely_on(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stats", str(data), "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert document["sessions"] == 3
    assert document["requests"] == 225
    assert document["subagents"] == 4
    for name in ("input_tokens", "output_tokens"):
        assert {"total", "p50", "p90"} <= set(document[name])
    for scope in ("agent", "session", "dataset"):
        rate = document["hit_rate"][scope]
        assert 0.8 < rate["token_weighted"] < 1
        assert 0.8 < rate["request_mean"] < 1


def test_capacity_may_be_given_several_times(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stats", str(data), "--capacity", "64000", "--capacity", "128000", "--json"]) == 0
    rows = orjson.loads(capsys.readouterr().out)["achievable_hit_rate"]["lru"]
    assert [row["capacity_tokens"] for row in rows] == [64_000, 128_000]
    assert run(["stats", str(data), "--capacity", "0"]) == 2


def test_tables(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(data)]) == 0
    shown = capsys.readouterr().out
    for words in ("225 (44 in 4 subagents)", "13,392,427", "recorded", "tool time, s"):
        assert words in shown


def test_what_is_no_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"agentx: {tmp_path / 'nowhere'} does not exist")
