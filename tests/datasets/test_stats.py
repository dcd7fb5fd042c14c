"""Figures of data sets against a calculation that knows nothing of ours."""

from __future__ import annotations

import gzip
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from agentx.datasets.importer import import_weka
from agentx.datasets.parquet.info import DatasetInfo
from agentx.datasets.parquet.reader import Dataset, open_dataset
from agentx.datasets.parquet.writer import DatasetWriter
from agentx.datasets.samples import sample_folder
from agentx.datasets.stats import dataset_stats
from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import Session
from agentx.datasets.trace.stack_distance import lru_curve
from tests.datasets.made import Namer, Turn, make_session


class Naive:
    """The figures of weka traces straight from their JSON, as reference.json's conventions say."""

    def __init__(self, paths: list[Path]) -> None:
        self.requests: list[tuple[float, int, int, str, int, int, list[int]]] = []
        for place, path in enumerate(paths):
            document = orjson.loads(gzip.decompress(path.read_bytes()))
            position = 0
            for entry in document["requests"]:
                rows, start, line = [entry], 0.0, "main"
                if entry["type"] == "subagent":
                    line = entry["agent_id"]
                    start = entry["t"] - (entry["duration_ms"] or 0) / 1000
                    rows = entry["requests"]
                for row in rows:
                    when = start + row["t"]
                    self.requests.append(
                        (when, place, position, line, row["in"], row["out"], row["hash_ids"])
                    )
                    position += 1
        self.requests.sort(key=lambda row: row[:3])

    def rates(self, by_agent: bool) -> dict[str, float]:
        seen: dict[object, set[int]] = defaultdict(set)
        hits, shares, total = 0, [], 0
        for _, place, _, line, tokens, _, ids in self.requests:
            known = seen[(place, line) if by_agent else place]
            prefix = 0
            while prefix < len(ids) and ids[prefix] in known:
                prefix += 1
            known.update(ids)
            hit = min(prefix * 64, tokens)
            hits, total = hits + hit, total + tokens
            shares.append(hit / tokens)
        return {
            "token_weighted": hits / total,
            "request_mean": statistics.fmean(shares),
            "request_median": statistics.median(shares),
        }


@pytest.fixture(scope="module")
def paths(fixtures_dir: Path) -> list[Path]:
    with sample_folder() as folder:
        return sorted([*folder.glob("*.json.gz"), *(fixtures_dir / "weka").glob("*.json.gz")])


@pytest.fixture(scope="module")
def dataset(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("stats")
    (folder / "traces").mkdir()
    for path in paths:
        (folder / "traces" / path.name).write_bytes(path.read_bytes())
    import_weka(folder / "traces", folder / "data")
    return open_dataset(folder / "data")


@pytest.fixture(scope="module")
def found(dataset: Dataset) -> dict[str, Any]:
    return dataset_stats(dataset)


@pytest.fixture(scope="module")
def naive(dataset: Dataset, paths: list[Path]) -> Naive:
    by_name = {path.name: path for path in paths}
    return Naive([by_name[f"{entry.session_id}.json.gz"] for entry in dataset.entries])


def test_counts_and_tokens(found: dict[str, Any], naive: Naive) -> None:
    tokens = [row[4] for row in naive.requests]
    outputs = [row[5] for row in naive.requests]
    assert found["sessions"] == len({row[1] for row in naive.requests}) == 5
    assert found["requests"] == len(naive.requests)
    assert found["subagents"] == len({row[1:4:2] for row in naive.requests}) - 5 == 4
    assert found["requests_in_subagents"] == sum(row[3] != "main" for row in naive.requests)
    for name, values in (("input_tokens", tokens), ("output_tokens", outputs)):
        assert found[name]["total"] == sum(values)
        assert found[name]["p50"] == np.percentile(values, 50)
        assert found[name]["p90"] == np.percentile(values, 90)


def test_theoretical_rates(found: dict[str, Any], naive: Naive) -> None:
    for scope, by_agent in (("agent", True), ("session", False), ("dataset", False)):
        assert found["hit_rate"][scope] == pytest.approx(naive.rates(by_agent), abs=1e-12)


def test_bounds_are_in_order(found: dict[str, Any]) -> None:
    for scope in ("agent", "session", "dataset"):
        low, high, live = (
            found[name][scope]["token_weighted"]
            for name in ("hit_rate", "hit_rate_with_tail", "hit_rate_live")
        )
        assert low < high < live < 1
        # A tail is less than a block.
        assert high - low < 63 * found["requests"] / found["input_tokens"]["total"]


def test_capacities_may_be_chosen(dataset: Dataset) -> None:
    rows = dataset_stats(dataset, [64_000, 1_000_000])["achievable_hit_rate"]["lru"]
    assert [row["capacity_tokens"] for row in rows] == [64_000, 1_000_000]
    assert [row["capacity_blocks"] for row in rows] == [1000, 15_625]
    assert 0 < rows[0]["token_weighted"] < rows[1]["token_weighted"]


def stats_of(folder: Path, sessions: list[Session], scope: str) -> dict[str, Any]:
    info = DatasetInfo(block_size=16, hash_scope=scope)  # type: ignore[arg-type]
    with DatasetWriter(folder / "data", info) as writer:
        for session in sessions:
            writer.add(session)
    return dataset_stats(open_dataset(folder / "data"))


def test_blocks_shared_between_sessions_are_seen_in_order_of_time(tmp_path: Path) -> None:
    namer = Namer()
    late = make_session(
        [Turn((0, 1)), Turn((0, 1, 2))], name="late", namer=namer, shared=True, start_ms=1500
    )
    early = make_session(
        [Turn((0, 2)), Turn((0, 1, 2, 2))], name="early", namer=namer, shared=True, start_ms=0
    )
    found = stats_of(tmp_path, [late, early], "dataset")
    # Sent: early (0, 2) at 0; early (0, 1, 2, 2) at 1 s; late (0, 1) at 1.5 s, late (0, 1, 2).
    assert found["hit_rate"]["session"]["token_weighted"] == (32 + 16) / (32 + 48 + 32 + 64)
    expected = (0 + 16 + 32 + 48) / (32 + 64 + 32 + 48)
    assert found["hit_rate"]["dataset"]["token_weighted"] == expected
    assert found["achievable_hit_rate"]["infinite"] == expected


def test_sessions_without_a_start_are_laid_together(tmp_path: Path) -> None:
    namer = Namer()
    one = make_session([Turn((0,)), Turn((1,))], name="one", namer=namer, shared=True)
    two = make_session([Turn((1,)), Turn((0,))], name="two", namer=namer, shared=True)
    found = stats_of(tmp_path, [one, two], "global")
    # In order of time, then as stored: one 0, two 1, one 1 (hit), two 0 (hit).
    assert found["hit_rate"]["dataset"]["request_mean"] == 0.5


def test_what_is_unknown_is_null(tmp_path: Path) -> None:
    found = stats_of(tmp_path, [make_session([Turn((), output=None)])], "local")
    assert found["hit_rate"]["session"] == {
        "token_weighted": None, "request_mean": None, "request_median": None,
    }  # fmt: skip
    assert found["output_tokens"] == {
        "total": 0, "p50": None, "p90": None, "p99": None, "max": None, "unknown": 1,
    }  # fmt: skip
    assert found["append_only"]["share"] is None
    assert found["achievable_hit_rate"]["infinite"] is None
    assert found["per_session_hit"]["p50"] is None


def test_sessions_that_are_alike_are_counted(tmp_path: Path) -> None:
    namer = Namer()
    short = [Turn((n,), rest=n) for n in range(1, 6)]
    made = [
        make_session(turns, name=name, namer=namer)
        for name, turns in (
            ("a", short),
            ("b", short),
            ("c", [*short, Turn((1,))]),
            ("d", short[:1]),
        )
    ]
    found = stats_of(tmp_path, made, "local")
    assert found["alike"]["identical"] == {"groups": 1, "sessions": 2}
    assert found["alike"]["same_first_5_requests"] == {"groups": 1, "sessions": 3}


@pytest.fixture(scope="module")
def reference(shared_dir: Path) -> dict[str, Any]:
    content = (shared_dir / "traces" / "weka" / "reference.json").read_bytes()
    document: dict[str, Any] = orjson.loads(content)
    return document


@pytest.fixture(scope="module")
def whole(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("whole") / "data"
    import_weka(shared_dir / "traces" / "weka", out)
    return open_dataset(out)


def lru_table(curve: Any, capacities: list[int]) -> dict[str, Any]:
    return {
        "block_touches": curve.touches,
        "distinct_blocks": curve.distinct,
        "infinite": curve.infinite,
        "per_touch": {str(size): curve.per_touch(size) for size in capacities},
        "at_arrival": {str(size): curve.at_arrival(size) for size in capacities},
    }


@pytest.mark.shared
def test_the_reference_figures_of_all_traces(whole: Dataset, reference: dict[str, Any]) -> None:
    found = dataset_stats(whole)
    for name in (
        "sessions", "requests", "subagents", "requests_in_subagents", "sessions_with_subagents",
    ):  # fmt: skip
        assert found[name] == reference[name]
    for name in ("input_tokens", "output_tokens"):
        assert found[name]["total"] == reference[name]["sum"]
        assert (found[name]["p50"], found[name]["p90"]) == (
            reference[name]["p50"],
            reference[name]["p90"],
        )
    for scope in ("agent", "session", "dataset"):
        assert found["hit_rate"][scope] == approx(reference[f"hit_infinite_{scope}"])
    assert found["append_only"] == approx(reference["append_only"])
    per_session = reference["per_session_hit"]
    per_session["share_ge_98pct"] = per_session.pop("share_of_sessions_ge_98pct")
    assert found["per_session_hit"] == approx(per_session)
    assert found["requests_share_with_hit_ge_98pct"] == approx(
        reference["requests_share_with_hit_ge_98pct"]
    )
    working_set = found["working_set_tokens_per_session"]
    assert {name: working_set[name] for name in ("p50", "p90")} == (
        reference["working_set_tokens_per_session"]
    )
    lru = reference["lru"]
    achievable = found["achievable_hit_rate"]
    for name in ("block_touches", "distinct_blocks", "infinite"):
        assert achievable[name] == approx(lru[name])
    for row in achievable["lru"]:
        for name in ("per_touch", "at_arrival"):
            assert row[name] == approx(lru[name][str(row["capacity_blocks"])])


@pytest.mark.shared
def test_the_reference_figures_if_subagents_began_when_they_ended(
    whole: Dataset, reference: dict[str, Any]
) -> None:
    """The tables hold what it takes to lay subagents elsewhere: at `t` of their entry."""
    requests = []
    for place, session in enumerate(whole.sessions()):
        late = {
            agent.agent_id: agent.duration_ms or 0
            for agent in session.agents
            if agent.entry is not None
        }
        for request, blocks in zip(session.requests, block_lists(session), strict=True):
            assert request.sent_ms is not None
            when = request.sent_ms + late.get(request.agent_id, 0)
            requests.append((when, place, request.request, blocks))
    requests.sort(key=lambda row: row[:3])
    curve = lru_curve((row[3] for row in requests), len(requests))
    wanted = reference["lru_if_subagent_spawns_at_entry_t"]
    made = lru_table(curve, [int(size) for size in wanted["per_touch"]])
    for name, value in wanted.items():
        assert made[name] == approx(value)


def approx(value: Any) -> Any:
    return pytest.approx(value, abs=1e-9)
