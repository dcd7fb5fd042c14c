"""The figures of a run, and what stays unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.replay.aggregate import Aggregator, ClientState, figures
from agentx.replay.counting import Counting
from agentx.replay.metrics import CacheCounters

IDLE = ClientState(loop_lags_ms=[1.0, 2.0], cpu_s=0.1, peak_rss_mb=100)


def row(**fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "intended_ms": 1000.0,
        "sent_ms": 1031.0,
        "connect_ms": 30.0,
        "end_ms": 2031.0,
        "event_ms": [100.0, 200.0, 400.0],
        "context_tokens": 1000,
        "messages": 4,
        "kept_messages": 2,
        "words": 1000,
        "asked_tokens": 3,
        "output_tokens": 3,
        "prompt_tokens": 1010,
        "cached_tokens": 505,
        "theoretical_tokens": 600,
        "theoretical_upper_tokens": 650,
        "ttft_ms": 100.0,
        "tpot_ms": 150.0,
        "tpot_assumed": True,
        "e2e_ms": 1000.0,
        "engine_ttft_ms": None,
        "engine_tpot_ms": None,
        "engine_e2e_ms": None,
        "error": None,
        "status": 200,
        "reconnects": 0,
    }
    return given | fields


def document(
    *rows: dict[str, Any],
    scaled: float | None = None,
    counters: CacheCounters | None = None,
    client: ClientState = IDLE,
    counting: Counting | None = None,
) -> dict[str, Any]:
    aggregator = Aggregator(counting=counting)
    for one in rows:
        aggregator.add(one)
    return aggregator.document(scaled=scaled, counters=counters, client=client)


def test_answered_requests_make_the_figures() -> None:
    found = document(
        row(),
        row(sent_ms=2031.0, end_ms=5031.0, ttft_ms=300.0, cached_tokens=1010),
        row(error="timeout", ttft_ms=9999.0, theoretical_tokens=None, context_tokens=10**9),
    )
    assert found["requests"] == {"ok": 2, "failed": 1}
    assert found["errors"] == {"timeout": 1}
    assert found["ttft_ms"]["p50"] == 200
    assert found["ttft_ms"]["mean"] == 200
    assert found["itl_ms"]["p50"] == 150
    assert found["hit_rate"]["theoretical"] == 0.6
    assert found["hit_rate"]["theoretical_upper"] == 0.65
    assert found["hit_rate"]["reported"] == 0.75
    assert found["throughput"] == {
        "requests_per_s": 0.5,
        "input_tokens_per_s": 505.0,
        "output_tokens_per_s": 1.5,
    }
    assert found["tpot_assumed"] == 1.0


def test_a_run_without_rows_knows_nothing() -> None:
    found = document()
    assert found["requests"] == {"ok": 0, "failed": 0}
    assert set(found["hit_rate"].values()) == {None}
    assert set(found["throughput"].values()) == {None}
    assert set(found["e2e_ms"].values()) == {None}
    assert found["duration_s"] is None
    assert found["client"]["send_lag_ms"] is None


def test_usage_that_is_not_reported_is_unknown() -> None:
    silent = row(prompt_tokens=None, output_tokens=None, cached_tokens=None, tpot_ms=None)
    found = document(silent)
    assert found["hit_rate"]["reported"] is None
    assert found["hit_rate"]["theoretical"] == 0.6
    assert found["throughput"]["input_tokens_per_s"] is None
    assert found["throughput"]["output_tokens_per_s"] is None
    assert found["throughput"]["requests_per_s"] == 1.0
    assert found["tokens"]["cached"] is None
    assert found["tpot_ms"]["p50"] is None


def test_the_reported_rate_is_over_those_that_report() -> None:
    found = document(row(), row(cached_tokens=None))
    assert found["hit_rate"]["reported"] == 0.5


def test_cached_tokens_of_zero_are_a_rate_of_zero() -> None:
    assert document(row(cached_tokens=0))["hit_rate"]["reported"] == 0


def test_the_metrics_rate_is_growth_by_growth() -> None:
    assert document(row(), counters=CacheCounters(30, 40))["hit_rate"]["metrics"] == 0.75
    assert document(row(), counters=CacheCounters(0, 0))["hit_rate"]["metrics"] is None


def test_the_theoretical_rate_in_the_servers_tokens_has_its_template() -> None:
    counting = Counting(slope=1.0, overhead=20, per_message=5)
    found = document(row(), counting=counting)
    assert found["hit_rate"]["theoretical_server"] == pytest.approx(610 / 1040, abs=1e-6)
    # Where a word is 1.25 tokens, a token of the trace is 0.8 words: the same count again.
    adjusted = Counting(slope=1.25, overhead=20, per_message=5)
    found = document(row(words=800), counting=adjusted)
    assert found["hit_rate"]["theoretical_server"] == pytest.approx(610 / 1040, abs=1e-6)


def test_hits_that_were_not_worked_out_are_unknown() -> None:
    found = document(row(theoretical_tokens=None))
    assert found["hit_rate"]["theoretical"] is None
    assert found["tokens"]["theoretical"] is None


@given(
    upper=st.integers(0, 5000),
    slope=st.floats(0.5, 3),
    overhead=st.integers(0, 60),
    per_message=st.integers(0, 12),
    block=st.sampled_from([16, 64, 512]),
    messages=st.integers(1, 40),
)
def test_what_a_server_can_find_is_never_too_much_and_a_warm_cache_is(
    upper: int, slope: float, overhead: int, per_message: int, block: int, messages: int
) -> None:
    counting = Counting(slope=slope, overhead=overhead, per_message=per_message)
    a_token = counting.slope * counting.words_per_token
    context = upper + 4000
    whole = round(overhead + messages * per_message + a_token * context)
    # Its template, its next message's beginning, blocks of one token: all that may be found.
    most = round(overhead + messages * per_message + a_token * upper)
    given = row(
        context_tokens=context,
        theoretical_tokens=upper // block * block,
        theoretical_upper_tokens=upper,
        messages=messages + 1,
        kept_messages=messages if upper else 0,
        prompt_tokens=whole + per_message,
        cached_tokens=most if upper else overhead,
    )
    for known in (counting, None):
        made = Aggregator(counting=known, block_size=block)
        made.add(given)
        if known is not None or overhead + messages * per_message < 64:
            assert made.surplus.requests == 0
    made = Aggregator(counting=counting, block_size=block)
    made.add(given | {"cached_tokens": whole})
    assert (made.surplus.requests, made.judged) == (1, 1)
    assert 0 < made.surplus.tokens <= whole


def test_more_hits_than_tokens_are_impossible_whatever_was_sent() -> None:
    made = Aggregator(block_size=64)
    made.add(row(theoretical_upper_tokens=1000, cached_tokens=1011))
    assert (made.surplus.requests, made.surplus.tokens) == (1, 1)


@pytest.mark.parametrize(
    ("failed", "judged"),
    [
        ({"error": "timeout", "status": None}, False),
        ({"error": "broken", "status": None}, False),
        ({"error": "http_5xx", "status": 502}, False),
        ({"error": "http_4xx", "status": 400}, True),
        ({"error": "connect", "status": None}, True),
        ({"error": "cancelled", "status": None}, True),
        # It counts as taken.
        ({"error": "timeout", "status": 200}, True),
    ],
)
def test_nothing_is_impossible_after_a_request_that_may_have_warmed_the_cache(
    failed: dict[str, Any], judged: bool
) -> None:
    made = Aggregator(block_size=64)
    made.add(row(cached_tokens=1010, theoretical_upper_tokens=0))
    made.add(row(**failed))
    found = made.document(scaled=None, counters=None, client=IDLE)["hits_beyond_possible"]
    assert (found is not None) == judged
    assert not judged or found["requests"] == 1


def test_hits_of_which_nothing_is_known_are_not_judged() -> None:
    for one in (row(theoretical_upper_tokens=None), row(cached_tokens=None)):
        made = Aggregator(block_size=64)
        made.add(one)
        found = made.document(scaled=None, counters=None, client=IDLE)
        assert found["hits_beyond_possible"] is None


def test_a_fast_clock_scales_latencies_and_rates_but_not_the_servers_own_times() -> None:
    own = row(engine_ttft_ms=5000.0, engine_tpot_ms=12.0, engine_e2e_ms=9000.0)
    found = document(own, scaled=100.0)
    assert found["scaled"] == 100
    assert found["ttft_ms"]["p50"] == 10_000
    assert found["itl_ms"]["p50"] == 15_000
    assert found["e2e_ms"]["p50"] == 100_000
    assert found["throughput"]["requests_per_s"] == 0.01
    assert found["duration_s"] == 100
    assert found["engine"]["ttft_ms"]["p50"] == 5000
    assert found["engine"]["tpot_ms"]["p50"] == 12
    assert found["engine"]["e2e_ms"]["p50"] == 9000
    assert found["client"]["send_lag_ms"] == 1
    assert found["client"]["error_ms"] == pytest.approx(199)


def test_a_client_that_lags_or_is_busy_is_bound() -> None:
    assert not document(row())["client"]["bound"]
    assert document(row(intended_ms=900.0))["client"]["bound"]
    busy = ClientState(loop_lags_ms=[], cpu_s=0.95, peak_rss_mb=1)
    assert document(row(), client=busy)["client"]["bound"]


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_percentiles_are_exact(values: list[float]) -> None:
    found = figures(values)
    for name, share in (("p50", 50), ("p90", 90), ("p99", 99)):
        assert found[name] == pytest.approx(np.percentile(values, share), abs=1e-4)
