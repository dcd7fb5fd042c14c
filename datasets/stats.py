"""What is in a data set: counts, tokens, hit rates by scope, working sets, gaps.

Computed from the Parquet tables alone, in two passes: session by session, then over all requests
in the order in which they were sent if every session is laid on the data set's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from agentx.datasets.parquet.reader import Dataset
from agentx.datasets.survey import SAME_START, Link, Survey
from agentx.datasets.trace.block_runs import decode, whole_runs
from agentx.datasets.trace.hitrate import SeenBlocks, hit_rate
from agentx.datasets.trace.stack_distance import lru_curve

Stats = dict[str, Any]
"""The document that `agentx stats --json` prints; docs/stats.md has its keys."""

HIGH = 0.98
"""The threshold of the figures named `…_ge_98pct`."""
LONG_CONTEXTS = (32_768, 65_536, 131_072, 262_144)
CAPACITY_BLOCKS = (1_000, 10_000, 100_000, 1_000_000)


def dataset_stats(
    dataset: Dataset,
    capacity_tokens: Sequence[int] = (),
    session_done: Callable[[], object] = lambda: None,
) -> Stats:
    """The figures of a data set.

    `capacity_tokens` are the cache sizes of the achievable hit rates; where none is given, 1,000
    to 1,000,000 blocks. `session_done` is called after each session that was read.

    Raises:
        DatasetError: the data set is damaged.
    """
    counts, size = dataset.info.counts, dataset.info.block_size
    survey = Survey(size)
    for session in dataset.sessions():
        survey.take(session)
        session_done()
    links = _sent_order(survey)
    capacities = capacity_tokens or [blocks * size for blocks in CAPACITY_BLOCKS]
    return {
        "sessions": counts.sessions,
        "requests": counts.requests,
        "subagents": counts.subagents,
        "requests_in_subagents": survey.in_subagents,
        "sessions_with_subagents": survey.with_subagents,
        "block_size": size,
        "blocks": counts.blocks,
        "hash_scope": dataset.info.hash_scope,
        "models": dict(survey.models.most_common()),
        "input_tokens": _tokens(survey.contexts),
        "output_tokens": _tokens(survey.outputs)
        | {"unknown": counts.requests - len(survey.outputs)},
        "context_over": {
            str(limit): _share([tokens > limit for tokens in survey.contexts])
            for limit in LONG_CONTEXTS
        },
        **_hit_rates(survey, links, dataset),
        "append_only": _append_only(survey),
        "per_session_hit": _quantiles(survey.hit_rates, p10=10, p50=50, p90=90)
        | {"share_ge_98pct": _share([rate >= HIGH for rate in survey.hit_rates])},
        "working_set_tokens_per_session": _quantiles(survey.working_sets, p50=50, p90=90, max=100),
        "achievable_hit_rate": _achievable(survey, links, size, capacities),
        "think_ms": {
            kind: {"requests": len(gaps)} | _quantiles(gaps, p50=50, p90=90, p99=99)
            for kind, gaps in survey.think_ms.items()
        },
        "session_ms": _quantiles(survey.lengths_ms, p50=50, p90=90, max=100),
        "alike": {
            "identical": _alike(survey.wholes),
            f"same_first_{SAME_START}_requests": _alike(survey.starts),
        },
    }


def _sent_order(survey: Survey) -> list[Link]:
    """All requests by time, then stored order."""
    order = sorted(range(len(survey.links)), key=lambda number: (*survey.times[number], number))
    return [survey.links[number] for number in order]


def _hit_rates(survey: Survey, links: list[Link], dataset: Dataset) -> Stats:
    """Theoretical rates by scope: recorded history, the same with tails, live history."""
    in_dataset = survey.session_hits
    if dataset.info.hash_scope != "local":
        in_dataset = _dataset_hits(survey, links, dataset.info.block_size)
    by_scope = {
        "agent": survey.agent_hits,
        "session": survey.session_hits,
        "dataset": in_dataset,
    }
    nothing = [0] * len(survey.contexts)
    kinds = {
        "hit_rate": nothing,
        "hit_rate_with_tail": survey.shared,
        "hit_rate_live": survey.shared_live,
    }
    session = np.array(survey.session_hits, dtype=np.float64)
    return {
        name: {
            scope: asdict(hit_rate(np.maximum(hits, shared), survey.contexts))
            for scope, hits in by_scope.items()
        }
        for name, shared in kinds.items()
    } | {
        "requests_share_with_hit_ge_98pct": _share(
            session >= HIGH * np.array(survey.contexts, dtype=np.float64)
        )
    }


def _dataset_hits(survey: Survey, links: list[Link], block_size: int) -> list[int]:
    seen = SeenBlocks(block_size)
    hits = [0] * len(links)
    for link, runs in zip(links, whole_runs(links), strict=True):
        hits[link.request] = seen.hit_then_add(
            decode(runs), survey.contexts[link.request], link.tail_id
        )
    return hits


def _append_only(survey: Survey) -> Stats:
    """Requests whose context begins with all full blocks of their parent's."""
    turns = [number for number, turn in enumerate(survey.append_only) if turn is not None]
    kept = [number for number in turns if survey.append_only[number]]
    rate = hit_rate(
        [survey.session_hits[number] for number in kept],
        [survey.contexts[number] for number in kept],
    )
    return {
        "turns_with_predecessor": len(turns),
        "append_only_turns": len(kept),
        "share": len(kept) / len(turns) if turns else None,
        "token_weighted_hit_of_append_only_turns": rate.token_weighted,
        "sessions_share_with_append_only_ge_98pct": _share(
            [share >= HIGH for share in survey.append_only_shares]
        ),
    }


def _achievable(
    survey: Survey, links: list[Link], block_size: int, capacities: Sequence[int]
) -> Stats:
    """One LRU cache for all sessions, which start together unless the data set says when."""
    paths: Iterator[Any] = (decode(runs) for runs in whole_runs(links))
    curve = lru_curve(paths, len(links))
    total = sum(survey.contexts)
    rows = []
    for tokens in capacities:
        blocks = tokens // block_size
        resident = curve.at_arrival_blocks(blocks) * block_size
        rows.append(
            {
                "capacity_tokens": tokens,
                "capacity_blocks": blocks,
                "token_weighted": resident / total if total else None,
                "at_arrival": curve.at_arrival(blocks),
                "per_touch": curve.per_touch(blocks),
            }
        )
    return {
        "block_touches": curve.touches,
        "distinct_blocks": curve.distinct,
        "infinite": curve.infinite,
        "lru": rows,
    }


def _tokens(counts: Sequence[int]) -> Stats:
    return {"total": sum(counts)} | _quantiles(counts, p50=50, p90=90, p99=99, max=100)


def _quantiles(values: Sequence[float], **points: int) -> Stats:
    """Percentiles by linear interpolation; None of nothing."""
    if not values:
        return dict.fromkeys(points)
    found = np.percentile(np.asarray(values, dtype=np.float64), list(points.values()))
    return dict(zip(points, found.tolist(), strict=True))


def _share(flags: Any) -> float | None:
    return float(np.mean(flags)) if len(flags) else None


def _alike(groups: Counter[Hashable]) -> Stats:
    sizes = [size for size in groups.values() if size > 1]
    return {"groups": len(sizes), "sessions": sum(sizes)}
