"""What a run wrote can be read, wherever it was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agentx.replay.errors import ReplayError
from agentx.replay.exchange import Exchange
from agentx.replay.plan import PlannedRequest
from agentx.replay.rows import REQUESTS, Sent, row_of
from agentx.replay.runs import TELEMETRY, RunWriter, open_run


def planned(index: int = 0, output: int = 2) -> PlannedRequest:
    return PlannedRequest(
        index=index,
        agent_id="main",
        kind="main",
        parent=None,
        after=(),
        think_ms=None,
        gap_from=None,
        gap_ms=None,
        context_tokens=100,
        output_tokens=output,
    )


def row(index: int = 0, *, sent: float = 10.0, exact: bool = True, got: int = 2) -> dict[str, Any]:
    exchange = Exchange()
    exchange.sent, exchange.headers, exchange.end = sent, sent + 0.1, sent + 0.5
    exchange.status = 200
    exchange.meter.events = [sent + 0.2, sent + 0.4]
    exchange.meter.output_tokens = got
    exchange.meter.engine = {"ttft_ms": 150.5, "e2e_ms": "no"}
    meant = Sent("s", planned(index), 1, sent - 0.001, 3, 2, 100, 700)
    return row_of(meant, exchange, origin=9.0, exact_length=exact)


def test_a_row_has_every_column_and_times_from_the_runs_start() -> None:
    made = row()
    assert list(made) == REQUESTS.names
    assert made["intended_ms"] == 999
    assert made["sent_ms"] == 1000
    assert made["first_output_ms"] == 1200
    assert made["event_ms"] == [200, 400]
    assert (made["ttft_ms"], made["e2e_ms"]) == (200, 500)
    assert (made["tpot_ms"], made["tpot_assumed"]) == (200, True)
    assert (made["engine_ttft_ms"], made["engine_e2e_ms"]) == (150.5, None)
    assert made["error"] is None


@pytest.mark.parametrize(("exact", "error"), [(True, "wrong_length"), (False, None)])
def test_another_length_is_a_fault_only_where_the_server_keeps_lengths(
    exact: bool, error: str | None
) -> None:
    assert row(exact=exact, got=3)["error"] == error


def test_a_finished_run_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with RunWriter(folder, {"seed": 7}) as writer:
        writer.requests.append(row(1, sent=12.0))
        writer.requests.append(row(0, sent=11.0))
        writer.telemetry.append({"t_ms": 1.0, "source": "client", "name": "cpu_s", "value": 0.5})
        writer.write_tables(lambda one: {**one, "theoretical_tokens": 64 * one["request"]})
        writer.finish({"complete": True, "aggregate": {"x": None}})
    run = open_run(folder)
    assert run.state == "finished"
    assert run.complete
    assert run.document["seed"] == 7
    assert run.requests.schema == REQUESTS
    assert run.requests.column("request").to_pylist() == [0, 1], "in the order of sends"
    assert run.requests.column("theoretical_tokens").to_pylist() == [0, 64]
    assert run.telemetry.to_pylist() == [
        {"t_ms": 1.0, "source": "client", "name": "cpu_s", "value": 0.5}
    ]
    assert sorted(path.name for path in folder.iterdir()) == [
        "requests.parquet",
        "run.json",
        "telemetry.parquet",
    ]


def test_a_run_that_was_killed_has_its_finished_requests(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", {"seed": 7})
    writer.requests.append(row(0))
    writer.requests.append(row(1))
    journal = tmp_path / "run" / "requests.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"session_id":"s","req')
    run = open_run(tmp_path / "run")
    assert run.state == "journal"
    assert not run.complete
    assert run.requests.column("request").to_pylist() == [0, 1]
    assert run.telemetry.num_rows == 0
    writer.requests.close()


def test_an_empty_run_comes_back(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", {}) as writer:
        writer.write_tables()
        writer.finish({"complete": False})
    run = open_run(tmp_path / "run")
    assert run.requests.num_rows == 0
    assert run.requests.schema == REQUESTS


@pytest.mark.parametrize("there", ["folder", "file"])
def test_what_is_there_already_is_left_alone(tmp_path: Path, there: str) -> None:
    target = tmp_path / "run"
    if there == "folder":
        target.mkdir()
    else:
        target.write_text("mine")
    with pytest.raises(ReplayError, match="exists already"):
        RunWriter(target, {})
    assert target.is_dir() or target.read_text() == "mine"
    assert not (tmp_path / "run" / "run.json").exists()


def damaged(folder: Path, name: str, data: bytes) -> Path:
    with RunWriter(folder, {}) as writer:
        writer.requests.append(row())
        if name.endswith("json"):
            writer.write_tables()
            writer.finish({})
    (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("run.json", b"{", "no JSON"),
        ("run.json", b"[]", "format_version"),
        ("run.json", orjson.dumps({"format_version": 99}), "newer"),
        ("requests.jsonl", b"7\n", "damaged"),
        ("requests.jsonl", b"{\n{}\n", "damaged"),
        ("requests.jsonl", b'{"request":"x"}\n', "damaged"),
    ],
)
def test_a_damaged_run_is_one_sentence(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    with pytest.raises(ReplayError, match=words):
        open_run(damaged(tmp_path / "run", name, data))


def test_text_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", {}) as writer:
        writer.write_tables()
        writer.finish({})
    broken = pa.array([b"\x83"], pa.binary()).view(pa.string())
    columns = [broken if field.name == "name" else pa.nulls(1, field.type) for field in TELEMETRY]
    pq.write_table(pa.table(columns, names=TELEMETRY.names), tmp_path / "run" / "telemetry.parquet")
    with pytest.raises(ReplayError, match="damaged"):
        open_run(tmp_path / "run")


def test_a_missing_or_torn_table_is_one_sentence(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", {}) as writer:
        writer.requests.append(row())
        writer.write_tables()
        writer.finish({})
    table = tmp_path / "run" / "requests.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(ReplayError, match=r"requests"):
        open_run(tmp_path / "run")
    table.unlink()
    with pytest.raises(ReplayError, match=r"lacks requests\.parquet"):
        open_run(tmp_path / "run")


def test_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="is no run"):
        open_run(tmp_path)
    with pytest.raises(ReplayError, match="does not exist"):
        open_run(tmp_path / "none")
