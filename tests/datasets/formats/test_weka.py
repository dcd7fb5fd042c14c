from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats.weka import BlockNumbers
from agentx.datasets.samples import sample_folder
from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import Request, Session
from tests.datasets.formats.weka_made import (
    Json,
    as_inferencex,
    request,
    session,
    subagent,
    trace,
)


def real(name: str) -> Json:
    with sample_folder() as folder:
        document: Json = orjson.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes()))
    return document


def by_agent(found: Session, agent_id: str) -> list[Request]:
    return [item for item in found.requests if item.agent_id == agent_id]


def test_what_a_request_carries() -> None:
    found = session(
        trace(
            [
                request(
                    3.0, [7, 8], type="s", ttft=0.25, stop="", input_types=["text"], think_time=1.5
                )
            ]
        )
    )
    (first,) = found.requests
    assert first == Request(
        session_id="one",
        request=0,
        agent_id="main",
        kind="main",
        context_tokens=133,
        blocks=2,
        keyframe=True,
        append=((0,), (2,)),
        waits_for=(),
        model="m",
        sent_ms=3000,
        first_output_ms=3250,
        end_ms=5000,
        think_source_ms=1500,
        think_kind="user",
        output_tokens=10,
        input_types=("text",),
        output_types=("tool_use",),
        streamed=True,
    )
    (agent,) = found.agents
    assert (agent.tool_tokens, agent.system_tokens) == (1000, 200)
    assert (agent.start_ms, agent.end_ms, agent.spawned_by) == (3000, 5000, None)


def test_what_is_absent_is_unknown() -> None:
    bare = {"t": 0, "in": 64, "out": 0, "hash_ids": [3]}
    found = session({"block_size": 64, "requests": [bare, bare | {"t": 9}]})
    second = found.requests[1]
    assert found.session_id == "a"
    assert second.output_tokens == 0
    for name in (
        "model", "first_output_ms", "end_ms", "think_ms", "think_source_ms", "think_kind",
        "stop_reason", "input_types", "output_types", "streamed", "tail_id", "input_tokens",
        "cached_tokens", "output_context_tokens",
    ):  # fmt: skip
        assert getattr(second, name) is None, name
    assert found.agents[0].end_ms is None


def test_think_time_counts_from_the_parents_end() -> None:
    found = session(
        trace(
            [
                request(0, [1], api_time=4.25),
                request(10, [1, 2], api_time=...),
                request(20, [1, 2, 3]),
                # Rounded to seconds, it seems to have been sent before its parent ended.
                request(21, [1, 2, 3]),
            ]
        )
    )
    assert [item.think_ms for item in found.requests] == [None, 5750, None, 0]
    assert [item.end_ms for item in found.requests] == [4250, None, 22000, 23000]


def test_kept_and_appended_blocks() -> None:
    found = session(
        trace([request(0, [1, 2, 3]), request(5, [1, 2, 9]), request(9, [1, 2, 9, 10, 11])])
    )
    assert [item.keep_blocks for item in found.requests] == [None, 2, 3]
    assert [item.keep_tokens for item in found.requests] == [None, 128, 192]
    assert [item.append for item in found.requests] == [((0,), (3,)), ((3,), (1,)), ((4,), (2,))]
    assert [item.parent for item in found.requests] == [None, 0, 1]


def test_ids_are_renumbered_in_order_of_first_use() -> None:
    found = session(trace([request(0, [900, 5, 70]), request(9, [900, 5, 1, 2])]))
    lists = [blocks.tolist() for blocks in block_lists(found)]
    assert lists == [[0, 1, 2], [0, 1, 3, 4]]


def test_local_ids_of_two_traces_are_different_and_global_ones_the_same() -> None:
    numbers = BlockNumbers()
    local = [session(trace([request(0, [1, 2])], id=name), numbers) for name in "ab"]
    shared = [
        session(trace([request(0, [1, 2])], id=name, hash_id_scope="global"), numbers)
        for name in "cd"
    ]
    lists = [next(block_lists(item)).tolist() for item in (*local, *shared)]
    assert lists == [[0, 1], [2, 3], [4, 5], [4, 5]]


def test_the_last_partial_block_may_have_an_id() -> None:
    found = session(
        trace(
            [
                request(0, [1, 2, 3, 4], **{"in": 212}),
                request(9, [1, 2, 3, 4], **{"in": 256}),
                request(19, [1, 2, 3], **{"in": 192}),
                request(29, [8], **{"in": 20}),
            ]
        )
    )
    assert [item.blocks for item in found.requests] == [3, 4, 3, 0]
    assert [item.tail_id for item in found.requests] == [3, None, None, 4]
    assert [item.context_tokens for item in found.requests] == [212, 256, 192, 20]
    assert [item.keep_blocks for item in found.requests] == [None, 3, 3, 0]


def test_fewer_ids_than_full_blocks_are_taken_as_they_are() -> None:
    found = session(trace([request(0, [1, 2], **{"in": 1000})]))
    assert (found.requests[0].blocks, found.requests[0].context_tokens) == (2, 1000)


def test_a_subagent_that_ended_at_t() -> None:
    found = session(
        trace(
            [
                request(0, [1]),
                subagent(23.5, [request(0, [50]), request(12, [50, 51], api_time=3.5)]),
                request(30, [1, 2]),
                request(40, [1, 2, 3]),
            ]
        )
    )
    assert [item.agent_id for item in found.requests] == [
        "main", "agent_001", "agent_001", "main", "main",
    ]  # fmt: skip
    assert [item.sent_ms for item in found.requests] == [0, 3500, 15500, 30000, 40000]
    assert [item.parent for item in found.requests] == [None, None, 1, 0, 3]
    assert [item.spawned_by for item in found.requests] == [None, 0, 0, None, None]
    assert [item.waits_for for item in found.requests] == [(), (), (), (2,), ()]
    assert [item.think_ms for item in found.requests] == [None, 1500, 10000, 11000, 8000]
    assert [item.kind for item in found.requests] == [
        "main", "subagent", "subagent", "main", "main",
    ]  # fmt: skip
    agent = found.agents[1]
    assert (agent.start_ms, agent.end_ms, agent.duration_ms) == (3500, 23500, 20000)
    assert (agent.spawned_by, agent.entry, agent.status) == (0, 1, "completed")
    assert (agent.agent_type, agent.total_tokens, agent.tool_use_count) == ("Explore", 9, 3)
    assert (agent.tool_tokens, agent.system_tokens) == (100, 20)


def test_a_subagent_that_started_at_t_in_session_time() -> None:
    found = session(
        trace(
            [
                request(0, [0]),
                subagent(3.5, [request(3.5, [50]), request(15.5, [50, 51])]),
                # Sent while the subagent ran: it cannot carry its result.
                request(9, [0, 1]),
                request(30, [0, 1, 2]),
            ]
        )
    )
    assert [item.sent_ms for item in found.requests] == [0, 3500, 9000, 15500, 30000]
    assert [item.waits_for for item in found.requests] == [(), (), (), (), (3,)]
    assert (found.agents[1].start_ms, found.agents[1].end_ms) == (3500, 23500)


def test_overlapping_subagents_are_waited_for_together() -> None:
    found = session(
        trace(
            [
                request(0, [1]),
                subagent(22, [request(0, [50])], duration_ms=19000),
                subagent(24, [request(0, [50]), request(15, [50, 60])], duration_ms=21000),
                request(25, [1, 2]),
            ]
        )
    )
    assert [agent.agent_id for agent in found.agents] == ["main", "agent_001", "agent_001-2"]
    assert found.requests[4].waits_for == (1, 3)
    assert [agent.spawned_by for agent in found.agents] == [None, 0, 0]
    # Siblings share their beginning.
    assert [b.tolist() for b in block_lists(found)][1:3] == [[1], [1]]


def test_nobody_is_known_to_wait_for_a_launch() -> None:
    launch = subagent(
        5.5,
        [request(0, [50]), request(30, [50, 51])],
        status="async_launched",
        duration_ms=None,
        total_tokens=None,
        tool_use_count=None,
    )
    other = subagent(48, [request(0, [60])], agent_id="agent_002", duration_ms=3000)
    found = session(
        trace([request(0, [1]), launch, request(8, [1, 2]), other, request(50, [1, 2, 3])])
    )
    main = by_agent(found, "main")
    assert [item.waits_for for item in main] == [(), None, (4,)]
    assert [item.think_ms for item in main] == [None, 6000, 3000]
    agent = found.agents[1]
    assert (agent.start_ms, agent.end_ms, agent.duration_ms) == (5500, 37500, None)
    assert [item.sent_ms for item in by_agent(found, "agent_001")] == [5500, 35500]


def test_a_subagent_without_a_duration_ended_with_its_last_known_response() -> None:
    entry = subagent(4, [request(4, [50]), request(9, [50, 51], api_time=6.0)], duration_ms=None)
    found = session(trace([request(0, [0]), entry, request(12, [0, 1]), request(16, [0, 1, 2])]))
    assert [item.waits_for for item in by_agent(found, "main")] == [(), (), (2,)]


def test_a_subagent_whose_end_is_unknown_leaves_open_who_waited() -> None:
    entry = subagent(4, [request(0, [50], api_time=...)], duration_ms=None)
    found = session(trace([request(0, [1]), entry, request(12, [1, 2])]))
    assert [item.waits_for for item in by_agent(found, "main")] == [(), None]
    assert found.agents[1].end_ms is None


def test_a_spawner_is_one_that_was_sent_before_the_subagent_began() -> None:
    found = session(
        trace(
            [
                request(0, [1]),
                request(40, [1, 2]),
                # Ended after the second request, but ran since before it.
                subagent(50, [request(0, [50])], duration_ms=30_000),
                request(60, [1, 2, 3]),
            ]
        )
    )
    assert found.agents[1].spawned_by == 0
    assert by_agent(found, "main")[2].waits_for == (1,)


def test_a_subagent_before_any_main_request_has_no_spawner() -> None:
    found = session(trace([subagent(50, [request(0, [50])]), request(60, [1])]))
    assert found.agents[1].spawned_by is None
    assert found.requests[0].spawned_by is None
    assert found.requests[0].think_ms is None


def test_a_subagent_that_began_before_the_session_moves_the_clock() -> None:
    found = session(trace([request(0, [1]), subagent(20, [request(0, [50])], duration_ms=20_400)]))
    assert [item.sent_ms for item in found.requests] == [0, 400]
    assert [item.agent_id for item in found.requests] == ["agent_001", "main"]
    assert (found.agents[1].start_ms, found.agents[1].end_ms) == (0, 20_400)


@pytest.mark.parametrize(
    ("t", "inner", "duration_ms", "ids", "start_ms"),
    [
        # An entry at 0 that ran for 20 s cannot have ended there.
        (0, [0, 9], 20_000, [1], 0),
        # At 0 and short: ids from 0 tell InferenceX's form, others the other.
        (0.5, [0, 0.2], 400, [1], 100),
        (0.5, [0.5, 0.7], 400, [0], 500),
        # A single request.
        (20, [0], 20_000, [1], 0),
        (20, [20], 20_000, [0], 20_000),
        # Longer than half of the session.
        (150, [0, 100, 140], 149_000, [1], 1000),
    ],
)
def test_which_clock_a_subagent_has(
    t: float, inner: list[float], duration_ms: int, ids: list[int], start_ms: int
) -> None:
    rows = [request(time, [50]) for time in inner]
    found = session(trace([request(0, ids), subagent(t, rows, duration_ms=duration_ms)]))
    assert found.agents[1].start_ms == start_ms
    expected = [start_ms + round(1000 * (time - inner[0])) for time in inner]
    assert [item.sent_ms for item in by_agent(found, "agent_001")] == expected


def test_the_sessions_other_subagents_decide_for_one_that_starts_at_0() -> None:
    sure = subagent(30, [request(30, [60])], agent_id="agent_002")
    unsure = subagent(0.5, [request(0.5, [50])], duration_ms=400)
    found = session(trace([request(0, [9]), unsure, sure]))
    assert [agent.start_ms for agent in found.agents] == [0, 500, 30_000]


def blank(item: Request) -> Request:
    """Without what InferenceX's form says otherwise or not at all."""
    return replace(
        item,
        think_source_ms=None,
        think_kind=None,
        input_types=None,
        output_types=None,
        stop_reason=None,
    )


def assert_same_in_both_forms(document: Json, other: Json) -> None:
    ours, theirs = session(document), session(as_inferencex(other))
    assert [blank(item) for item in theirs.requests] == [blank(item) for item in ours.requests]
    assert {
        (agent.agent_id, agent.start_ms, agent.end_ms, agent.spawned_by) for agent in ours.agents
    } == {
        (agent.agent_id, agent.start_ms, agent.end_ms, agent.spawned_by) for agent in theirs.agents
    }


def test_the_other_writers_form_is_the_same_session() -> None:
    assert_same_in_both_forms(real("trace_0277"), real("trace_0277"))


@pytest.mark.shared
def test_every_real_trace_with_subagents_is_the_same_in_both_forms(shared_dir: Path) -> None:
    found = 0
    for path in sorted((shared_dir / "traces" / "weka").glob("trace_*.json.gz")):
        content = gzip.decompress(path.read_bytes())
        if b'"subagent"' in content:
            assert_same_in_both_forms(orjson.loads(content), orjson.loads(content))
            found += 1
    assert found == 7


def test_times_that_fall_are_put_in_order() -> None:
    found = session(trace([request(9, [1]), request(5, [1, 2]), request(9, [1, 2, 3])]))
    assert [item.sent_ms for item in found.requests] == [5000, 9000, 9000]
    assert [item.blocks for item in found.requests] == [2, 1, 3]
    assert [item.parent for item in found.requests] == [None, 0, 1]


def test_order_is_finer_than_milliseconds() -> None:
    late = request(5.0004, [0, 1])
    entry = subagent(5.0001, [request(5.0001, [50]), request(5.00045, [50, 51])])
    found = session(trace([request(0, [0]), late, entry]))
    assert [item.agent_id for item in found.requests] == ["main", "agent_001", "main", "agent_001"]
    assert [item.sent_ms for item in found.requests] == [0, 5000, 5000, 5000]


def test_names_of_agents_are_made_unique() -> None:
    entries = [subagent(30, [request(0, [50 + n])], agent_id=name) for n, name in enumerate(
        ["main", "x", "x", "x-2", ""]
    )]  # fmt: skip
    found = session(trace([request(0, [1]), *entries]))
    assert [agent.agent_id for agent in found.agents] == [
        "main", "main-2", "x", "x-2", "x-2-2", "subagent",
    ]  # fmt: skip


def test_a_subagent_without_requests_is_an_agent() -> None:
    found = session(trace([request(0, [1]), subagent(30, []), request(40, [1, 2])]))
    assert found.agents[1].start_ms == 10_000
    assert [item.waits_for for item in found.requests] == [(), ()]


def test_every_id_of_a_real_trace_is_kept() -> None:
    document = real("trace_0277")
    rows = [row for entry in document["requests"] for row in entry.get("requests", [entry])]
    original = sorted((row["in"], row["out"], tuple(row["hash_ids"])) for row in rows)
    found = session(document)
    back: dict[int, int] = {}
    forth: dict[int, int] = {}
    lists = sorted(
        (item.context_tokens, item.output_tokens or 0, tuple(blocks.tolist()))
        for item, blocks in zip(found.requests, block_lists(found), strict=True)
    )
    pairs = defaultdict(list)
    for context, output, ids in original:
        pairs[context, output].append(ids)
    for context, output, blocks in lists:
        (ids,) = pairs[context, output]
        assert len(ids) == len(blocks)
        for name, number in zip(ids, blocks, strict=True):
            assert back.setdefault(number, name) == name
            assert forth.setdefault(name, number) == number
    assert sorted(back) == list(range(len(back)))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 2, 3], [1, 4, 3], "block id 3 follows id 2 elsewhere but id 4 here"),
        ([1, 2], [2], "block id 2 follows id 1 elsewhere but nothing here"),
        ([2, 1], [1], "block id 1 follows id 2 elsewhere but nothing here"),
        ([1, 2, 1], [5], "block id 1 follows nothing elsewhere but id 2 here"),
        ([1, 1], [5], "block id 1 follows nothing elsewhere but id 1 here"),
    ],
)
def test_an_id_stands_for_one_prefix(first: list[int], second: list[int], message: str) -> None:
    with pytest.raises(DatasetError, match=rf"a\.json, request \d: {message}"):
        session(trace([request(0, first), request(5, second)]))


def test_fixture_folder_is_as_published(fixtures_dir: Path) -> None:
    for path in sorted((fixtures_dir / "weka").glob("*.json.gz")):
        document = orjson.loads(gzip.decompress(path.read_bytes()))
        assert document["id"] == path.name.removesuffix(".json.gz")
        assert len(session(document).requests) == sum(
            len(entry.get("requests", [entry])) for entry in document["requests"]
        )
