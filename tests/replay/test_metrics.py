"""Counters before against after, and what must stay unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.replay.metrics import CacheCounters, cache_counters, read_metrics, was_reset
from agentx.replay.servers import (
    AGENTX,
    DYNAMO,
    LLAMACPP,
    OPENAI,
    SERVERS,
    SGLANG,
    VLLM,
    Models,
    read_models,
    recognise,
)

VLLM_PAGE = b"""\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 500.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e9
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 900.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 100.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.1
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} nan
http_requests_total{path="/v1"} 17.0
"""


def test_counters_are_summed_over_replicas_and_shares_averaged() -> None:
    reading = read_metrics(VLLM_PAGE, VLLM)
    assert reading["vllm:prefix_cache_queries_total"] == 1500
    assert reading["vllm:prefix_cache_hits_total"] == 1000
    assert reading["vllm:kv_cache_usage_perc"] == pytest.approx(0.3)
    assert reading["vllm:num_requests_running"] == 7
    assert "vllm:num_requests_waiting" not in reading
    assert "http_requests_total" not in reading


def test_growth_is_what_counts() -> None:
    before = read_metrics(VLLM_PAGE, VLLM)
    after = {**before, "vllm:prefix_cache_hits_total": 1075.0}
    after["vllm:prefix_cache_queries_total"] = 1600.0
    assert cache_counters(VLLM, before, after) == CacheCounters(75, 100)


def test_more_hits_than_lookups_are_unknown() -> None:
    before = read_metrics(VLLM_PAGE, VLLM)
    after = dict(before)
    after["vllm:prefix_cache_hits_total"] += 101
    after["vllm:prefix_cache_queries_total"] += 100
    assert cache_counters(VLLM, before, after) is None


def test_a_counter_that_fell_is_unknown_and_noticed() -> None:
    before = read_metrics(VLLM_PAGE, VLLM)
    after = {**before, "vllm:prefix_cache_hits_total": 3.0}
    assert cache_counters(VLLM, before, after) is None
    assert was_reset(VLLM, before, after)
    assert not was_reset(VLLM, before, before)


def test_a_server_without_counters_is_unknown() -> None:
    assert cache_counters(VLLM, {}, {}) is None
    assert cache_counters(OPENAI, {"x": 1.0}, {"x": 2.0}) is None
    assert read_metrics(VLLM_PAGE, OPENAI) == {}


def test_sglang_counts_each_source_once() -> None:
    page = b"""\
sglang:prompt_tokens_total{is_streaming="true"} 100
sglang:prompt_tokens_total{is_streaming="false"} 20
sglang:cached_tokens_total{cache_source="device"} 60
sglang:cached_tokens_total{cache_source="total"} 60
"""
    before = {"sglang:prompt_tokens_total": 0.0}
    assert cache_counters(SGLANG, before, read_metrics(page, SGLANG)) == CacheCounters(60, 120)


def test_llamacpp_counts_cached_tokens_apart_from_prompt_tokens() -> None:
    page = b"llamacpp:prompt_tokens_total 1773\nllamacpp:prompt_tokens_cached_total 2718\n"
    before = {"llamacpp:prompt_tokens_total": 0.0, "llamacpp:prompt_tokens_cached_total": 0.0}
    counters = cache_counters(LLAMACPP, before, read_metrics(page, LLAMACPP))
    assert counters == CacheCounters(2718, 1773 + 2718)


@pytest.mark.parametrize(("observed", "expected"), [(0, None), (5, CacheCounters(0, 100))])
def test_dynamo_that_observes_nothing_says_nothing(
    observed: int, expected: CacheCounters | None
) -> None:
    def page(count: int, tokens: int) -> bytes:
        return (
            f"dynamo_frontend_cached_tokens_sum 0\ndynamo_frontend_cached_tokens_count {count}\n"
            f"dynamo_frontend_input_sequence_tokens_sum {tokens}\n"
        ).encode()

    before = read_metrics(page(0, 0), DYNAMO)
    assert cache_counters(DYNAMO, before, read_metrics(page(observed, 100), DYNAMO)) == expected


@given(st.binary(max_size=300))
def test_a_page_of_anything_is_read_or_skipped(page: bytes) -> None:
    read_metrics(b"vllm:prefix_cache_hits_total" + page, VLLM)
    recognise((), page)


@pytest.mark.parametrize(
    ("owners", "page", "kind"),
    [
        (["vllm"], b"", "vllm"),
        (["agentx"], VLLM_PAGE, "agentx"),
        (["somebody"], VLLM_PAGE, "vllm"),
        ([], b"sglang:token_usage 0.1\n", "sglang"),
        (["llamacpp"], b"", "llamacpp"),
        (["nvidia"], b'dynamo_frontend_inflight_requests{model="m"} 0\nvllm:x 1\n', "dynamo"),
        (["openai"], b"<html>vllm: is great</html>", "openai"),
        ([], b"# HELP vllm:x y\n", "openai"),
    ],
)
def test_an_engine_is_recognised(owners: list[str], page: bytes, kind: str) -> None:
    assert recognise(owners, page).kind == kind


def test_a_list_of_models_is_read() -> None:
    document = {
        "data": [
            {"id": "a", "owned_by": "vLLM", "max_model_len": 4096},
            {"id": 7},
            "x",
            {"id": "b", "max_model_len": None},
        ]
    }
    assert read_models(document) == Models(("a", "b"), frozenset({"vllm"}), {"a": 4096})
    assert read_models(None) == Models()
    assert read_models({"data": {}}) == Models()


@pytest.mark.parametrize(
    ("entry", "limit"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"context_window": 8192}, 8192),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 32768}}, 2048),
        ({"context_window": 0, "max_model_len": 4096}, 4096),
        ({"context_window": 0}, None),
        ({"meta": {"n_ctx_train": 32768}}, None),
        ({"meta": None, "max_model_len": True}, None),
        ({"meta": [2048], "context_window": "8192", "max_model_len": -1}, None),
        ({}, None),
    ],
)
def test_a_context_limit_is_read_wherever_a_server_says_it(
    entry: dict[str, object], limit: int | None
) -> None:
    read = read_models({"data": [{"id": "m"} | entry]})
    assert read.limits.get("m") == limit


def test_every_row_has_its_denominator() -> None:
    for server in SERVERS.values():
        assert bool(server.hits) == bool(server.queries)
    assert AGENTX.forced
