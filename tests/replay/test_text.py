from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentx.datasets.importer import import_weka
from agentx.datasets.parquet.reader import Dataset, open_dataset
from agentx.datasets.trace.block_runs import block_lists
from agentx.datasets.trace.model import Agent, Segment, Session
from agentx.replay.plan import plan_session
from agentx.replay.text import Prompt, SessionText
from tests.replay.traces import Told, request, session, told_sessions

Messages = list[dict[str, Any]]


def session_text(
    of: Session, block_size: int = 4, salt: bytes = b"salt", ratio: float = 1.0
) -> SessionText:
    return SessionText(
        of,
        plan_session(of),
        block_lists(of),
        block_size=block_size,
        salt=salt,
        words_per_token=ratio,
    )


def prompts(of: Session, **options: Any) -> dict[int, Prompt]:
    text = session_text(of, **options)
    return {planned.index: text.prompt(planned.index) for planned in plan_session(of).requests}


def read(prompt: Prompt) -> Messages:
    """The messages, once they are found to be as a template wants them."""
    messages: Messages = orjson.loads(prompt.json())
    roles = [message["role"] for message in messages]
    turns = roles[1:] if roles[0] == "system" else roles
    assert turns == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    assert len(messages) == prompt.messages
    assert sum(map(len, map(words_of, messages))) == prompt.words
    return messages


def words_of(message: dict[str, Any]) -> list[str]:
    words: list[str] = message["content"].split(" ")
    assert all(words)
    return words


def stream(messages: Messages) -> list[str]:
    return [word for message in messages for word in words_of(message)]


def shape(messages: Messages) -> list[tuple[str, int]]:
    """Roles and numbers of words."""
    return [(message["role"][0], len(words_of(message))) for message in messages]


def ends(messages: Messages) -> list[int]:
    return list(itertools.accumulate(len(words_of(message)) for message in messages))


def common(one: Sequence[Any] | NDArray[Any], two: Sequence[Any] | NDArray[Any]) -> int:
    size = min(len(one), len(two))
    differ = np.flatnonzero(np.asarray(one[:size]) != np.asarray(two[:size]))
    return int(differ[0]) if differ.size else size


def shapes(*requests: Any, agents: Sequence[Agent] = (), **options: Any) -> list[Any]:
    of = session(*requests, agents=agents)
    return [shape(read(prompt)) for prompt in prompts(of, **options).values()]


MAIN = [Agent("s", "main", tool_tokens=2, system_tokens=3)]


# --- how messages are laid out


def test_system_first_as_long_as_tools_and_system_are() -> None:
    assert shapes(request(0, context_tokens=11), agents=MAIN) == [[("s", 5), ("u", 6)]]


def test_a_block_is_system_where_the_trace_does_not_tell() -> None:
    assert shapes(request(0, context_tokens=11)) == [[("s", 4), ("u", 7)]]


def test_segments_tell_the_system_too() -> None:
    of = session(request(0, context_tokens=11))
    kinds: list[Any] = ["tool_definition", "system", "user"]
    segments = tuple(Segment("s", 0, at, kind, 3) for at, kind in enumerate(kinds))
    text = session_text(replace(of, segments=segments))
    assert shape(read(text.prompt(0))) == [("s", 6), ("u", 5)]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (5, [("s", 4), ("u", 1)]),
        (2, [("s", 1), ("u", 1)]),
        (1, [("u", 1)]),
        (0, [("u", 1)]),  # servers refuse a prompt of nothing
    ],
)
def test_a_context_no_longer_than_its_system(tokens: int, expected: Any) -> None:
    assert shapes(request(0, context_tokens=tokens), agents=MAIN) == [expected]


FIRST = {"context_tokens": 11, "blocks": [1, 2]}


@pytest.mark.parametrize(
    ("output", "in_context", "appended", "expected"),
    [
        (6, None, 9, [("a", 6), ("u", 3)]),
        (6, 4, 9, [("a", 4), ("u", 5)]),
        (30, None, 9, [("a", 8), ("u", 1)]),
        (None, None, 9, [("a", 1), ("u", 8)]),  # some output there was
        (6, None, 2, [("a", 1), ("u", 1)]),
    ],
)
def test_a_child_appends_the_output_and_then_the_user(
    output: int | None, in_context: int | None, appended: int, expected: Any
) -> None:
    parent = request(0, output_tokens=output, output_context_tokens=in_context, **FIRST)
    child = request(1, parent=0, context_tokens=11 + appended, blocks=[1, 2, 3])
    before = [("s", 5), ("u", 6)]
    assert shapes(parent, child, agents=MAIN) == [before, before + expected]


@pytest.mark.parametrize(("output", "appended"), [(0, 9), (6, 1)])
def test_without_an_assistant_the_user_goes_on(output: int, appended: int) -> None:
    parent = request(0, output_tokens=output, **FIRST)
    child = request(1, parent=0, context_tokens=11 + appended, blocks=[1, 2, 3])
    assert shapes(parent, child, agents=MAIN)[1] == [("s", 5), ("u", 6 + appended)]


def test_the_same_context_is_the_same_request() -> None:
    made = prompts(session(request(0, **FIRST), request(1, parent=0, **FIRST), agents=MAIN))
    assert made[0].json() == made[1].json()
    assert made[1].kept_messages == 2


THREE_TURNS = [
    request(0, context_tokens=8, blocks=[1, 2], output_tokens=4),
    request(1, context_tokens=16, blocks=[1, 2, 3, 4], parent=0, output_tokens=4),
    request(2, context_tokens=28, blocks=[1, 2, 3, 4, 5, 6, 7], parent=1, output_tokens=4),
]
THREE_SHAPE = [("s", 4), ("u", 4), ("a", 4), ("u", 4), ("a", 4), ("u", 8)]


@pytest.mark.parametrize(
    ("blocks", "tokens", "expected"),
    [
        # Cut inside the last user's message, which goes on.
        ([1, 2, 3, 4, 5, 6, 20], 30, [*THREE_SHAPE[:5], ("u", 10)]),
        # After an assistant's message: a user's follows.
        ([1, 2, 3, 4, 5, 20], 24, [*THREE_SHAPE[:5], ("u", 4)]),
        # At the end of a user's message, which goes on.
        ([1, 2, 3, 4, 20, 21], 24, [*THREE_SHAPE[:3], ("u", 12)]),
        # At the end of the system message: a user's follows.
        ([1, 20, 21], 12, [("s", 4), ("u", 8)]),
        # Nothing is left: as at the start.
        ([20, 21], 10, [("s", 4), ("u", 6)]),
    ],
)
def test_a_rewritten_context_keeps_the_messages_of_what_it_keeps(
    blocks: list[int], tokens: int, expected: Any
) -> None:
    rewritten = request(3, parent=2, blocks=blocks, context_tokens=tokens)
    assert shapes(*THREE_TURNS, rewritten)[2:] == [THREE_SHAPE, expected]


def test_a_cut_assistant_or_system_keeps_its_role() -> None:
    first = request(0, context_tokens=16, blocks=[1, 2, 3, 4], output_tokens=8)
    second = request(1, parent=0, context_tokens=28, blocks=[1, 2, 3, 4, 5, 6, 7])
    third = request(2, parent=1, context_tokens=24, blocks=[1, 2, 3, 4, 5, 20])
    fourth = request(3, parent=1, context_tokens=12, blocks=[1, 30, 31])
    system = [Agent("s", "main", system_tokens=6)]
    assert shapes(first, second, third, fourth, agents=system) == [
        [("s", 6), ("u", 10)],
        [("s", 6), ("u", 10), ("a", 8), ("u", 4)],
        [("s", 6), ("u", 10), ("a", 4), ("u", 4)],
        [("s", 4), ("u", 8)],
    ]


def test_a_context_that_ends_inside_an_assistant_gives_its_last_word_to_the_user() -> None:
    ended = request(3, parent=2, blocks=[1, 2, 3, 4, 5], context_tokens=20)
    child = request(4, parent=3, blocks=[1, 2, 3, 4, 5, 30], context_tokens=24)
    made = shapes(*THREE_TURNS, ended, child)
    assert made[3] == [*THREE_SHAPE[:4], ("a", 3), ("u", 1)]
    assert made[4] == [*THREE_SHAPE[:4], ("a", 4), ("u", 4)], "its children do not inherit that"


def test_messages_come_from_the_request_that_shares_most() -> None:
    """A short call between two turns of a long conversation breaks no prefix on a server."""
    side = request(3, parent=2, blocks=[40], context_tokens=6)
    back = request(4, parent=3, blocks=[1, 2, 3, 4, 5, 6, 7, 8], context_tokens=32)
    made = shapes(*THREE_TURNS, side, back)
    assert made[4] == [*THREE_SHAPE, ("a", 3), ("u", 1)]


def test_siblings_share_messages_too() -> None:
    one = request(3, agent_id="a", spawned_by=2, blocks=[50, 51, 52], context_tokens=12)
    two = request(4, agent_id="a", parent=3, blocks=[50, 51, 52, 53, 54], context_tokens=20)
    fork = request(
        5, agent_id="b", spawned_by=2, context_tokens=24, blocks=[50, 51, 52, 53, 54, 60]
    )
    own = request(6, agent_id="c", spawned_by=2, blocks=[50, 70, 71], context_tokens=12)
    agents = [Agent("s", "a", system_tokens=6), Agent("s", "c", system_tokens=8)]
    short = request(7, agent_id="d", spawned_by=2, blocks=[50], context_tokens=7)
    made = shapes(*THREE_TURNS, one, two, fork, own, short, agents=agents)
    assert made[3:5] == [[("s", 6), ("u", 6)], [("s", 6), ("u", 6), ("a", 1), ("u", 7)]]
    assert made[5] == [*made[4], ("a", 1), ("u", 3)]
    assert made[6] == [("s", 8), ("u", 4)], "in a shared system prompt its own length holds"
    assert made[7] == [("s", 4), ("u", 3)]


# --- which words


def test_a_tail_is_the_beginning_of_the_childs_block() -> None:
    made = prompts(
        session(
            request(0, context_tokens=7, blocks=[1]),
            request(1, parent=0, context_tokens=11, blocks=[1, 2]),
            request(2, agent_id="a", spawned_by=0, context_tokens=8, blocks=[9, 2]),
        )
    )
    first, second, other = (stream(read(prompt)) for prompt in made.values())
    assert second[:7] == first
    assert other[4:] == second[4:8], "an integer has its words wherever it stands"


def test_a_tail_is_shared_through_children_that_stay_in_it() -> None:
    made = prompts(
        session(
            request(0, context_tokens=5, blocks=[1]),
            request(1, parent=0, context_tokens=7, blocks=[1]),
            request(2, parent=1, context_tokens=9, blocks=[1, 2]),
        )
    )
    first, second, third = (stream(read(prompt)) for prompt in made.values())
    assert third[:7] == second
    assert second[:5] == first


def test_a_tail_without_a_child_is_its_own() -> None:
    made = prompts(session(request(0, context_tokens=7), request(1, context_tokens=7)))
    first, second = (stream(read(prompt)) for prompt in made.values())
    assert common(first, second) == 0


def test_tokens_that_were_compared_say_how_much_of_a_tail_is_kept() -> None:
    made = prompts(
        session(
            request(0, context_tokens=15, blocks=[1]),
            request(1, parent=0, context_tokens=20, blocks=[1, 2], keep_tokens=12),
        ),
        block_size=8,
    )
    first, second = (stream(read(prompt)) for prompt in made.values())
    assert common(first, second) == 12


def test_an_imports_tail_id_means_the_same_words() -> None:
    made = prompts(
        session(
            request(0, context_tokens=7, blocks=[1], tail_id=5),
            request(1, context_tokens=7, blocks=[1], tail_id=5),
            request(2, parent=1, context_tokens=9, blocks=[1, 6], tail_id=7),
            request(3, context_tokens=5, blocks=[8], tail_id=7),
        )
    )
    texts = [stream(read(prompt)) for prompt in made.values()]
    assert texts[0] == texts[1] == texts[2][:7]
    assert texts[2][8:] == texts[3][4:]


def test_a_partial_block_among_the_full_ones_names_the_tail() -> None:
    made = prompts(
        session(
            request(0, context_tokens=7, blocks=[1, 2]), request(1, context_tokens=7, blocks=[1, 2])
        )
    )
    first, second = (stream(read(prompt)) for prompt in made.values())
    assert len(first) == 7
    assert first == second


def test_tokens_that_no_block_covers_are_filled() -> None:
    of = session(request(0, context_tokens=15, blocks=[1]), request(1, parent=0, context_tokens=3))
    assert [prompt.words for prompt in prompts(of).values()] == [15, 3]


def test_another_salt_shares_nothing() -> None:
    one, two = (prompts(session(*THREE_TURNS), salt=salt)[2] for salt in (b"a", b"b"))
    assert common(stream(read(one)), stream(read(two))) == 0


# --- for any session


@given(told_sessions(), st.randoms(use_true_random=False))
def test_prefixes_are_the_traces(told: Told, order: random.Random) -> None:
    of, size = told.session, told.block_size
    text = session_text(of)
    indices = [planned.index for planned in plan_session(of).requests]
    order.shuffle(indices)
    made = {index: read(text.prompt(index)) for index in indices}
    streams = {index: stream(messages) for index, messages in made.items()}
    other = {index: stream(read(p)) for index, p in prompts(of, salt=b"pepper").items()}
    for index, words in streams.items():
        assert len(words) == max(1, len(told.contexts[index]))
    for one, two in itertools.combinations(sorted(made), 2):
        # Of two words, one in 3,338 are equal by chance, but hardly under both salts.
        same = min(common(each[one], each[two]) for each in (streams, other))
        blocks = common(told.lists[one], told.lists[two])
        assert same // size == blocks
        # Within what two requests share, messages begin and end at the same words, but for the
        # last word, which a user must have.
        inside = min(same, len(streams[one]) - 1, len(streams[two]) - 1)
        assert [end for end in ends(made[one]) if end < inside] == [
            end for end in ends(made[two]) if end < inside
        ]
    again = prompts(of)
    assert all(read(again[index]) == made[index] for index in made)


@given(told_sessions())
def test_a_child_that_keeps_all_goes_on_from_its_parents_last_word(told: Told) -> None:
    made = {index: read(prompt) for index, prompt in prompts(told.session).items()}
    decided: set[int] = set()
    for planned in plan_session(told.session).requests:
        parent = planned.parent
        if parent is None or parent in decided:
            continue
        whole, context = told.contexts[parent], told.contexts[planned.index]
        if common(told.lists[parent], told.lists[planned.index]) == told.lists[parent].size:
            # Of several children that keep all blocks, only the earliest surely has the tail.
            decided.add(parent)
            if whole and whole == context[: len(whole)]:
                assert stream(made[planned.index])[: len(whole)] == stream(made[parent])


@given(told_sessions(block_size=8), st.floats(0.3, 2.5))
def test_a_server_that_counts_otherwise_gets_more_or_fewer_words(told: Told, ratio: float) -> None:
    of, size = told.session, told.block_size
    made = {index: stream(read(p)) for index, p in prompts(of, block_size=8, ratio=ratio).items()}
    for index, words in made.items():
        assert len(words) == max(1, math.floor(max(1, len(told.contexts[index])) * ratio))
    for one, two in itertools.combinations(made, 2):
        blocks = common(told.lists[one], told.lists[two])
        assert common(made[one], made[two]) >= math.floor(blocks * size * ratio)


# --- real traces


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three real traces, one with subagents."""
    import agentx.datasets.samples as folder

    out = tmp_path_factory.mktemp("samples") / "dataset"
    import_weka(Path(folder.__path__[0]), out)
    return open_dataset(out)


def test_prefixes_of_real_traces(samples: Dataset) -> None:
    size = samples.info.block_size
    pairs = 0
    for of in samples.sessions():
        lists = list(block_lists(of))
        texts = {}
        for index, prompt in prompts(of, block_size=size).items():
            texts[index] = " ".join(message["content"] for message in read(prompt)).encode()
            assert prompt.words == of.requests[index].context_tokens
        chosen = {(r.parent, r.request) for r in of.requests if r.parent is not None}
        shuffled = random.Random(1).sample(list(texts), len(texts))
        chosen |= {(one, two) for one, two in zip(texts, shuffled, strict=True) if one != two}
        for one, two in chosen:
            same, blocks = common_words(texts[one], texts[two]), common(lists[one], lists[two])
            assert same // size == blocks
            if blocks < min(lists[one].size, lists[two].size):
                assert same // 16 == blocks * size // 16, "no longer by accident, in units of 16"
        pairs += len(chosen)
    assert pairs > 300


def common_words(one: bytes, two: bytes) -> int:
    same = common(np.frombuffer(one, np.uint8), np.frombuffer(two, np.uint8))
    whole = all(text[same : same + 1] in (b"", b" ") for text in (one, two))
    return one.count(b" ", 0, same) + whole


def test_turns_share_their_bytes_and_the_rest_is_dropped(samples: Dataset) -> None:
    of = max(samples.sessions(), key=lambda each: len(each.requests))
    text = session_text(of, block_size=samples.info.block_size)
    made: list[Prompt] = []
    pieces: dict[int, int] = {}
    whole = 0
    for planned in plan_session(of).requests:
        prompt = text.prompt(planned.index)
        whole += len(prompt.json())
        made.append(prompt)
        pieces.update((id(piece), len(piece)) for piece in prompt.pieces)
    assert not text._made
    assert sum(pieces.values()) < whole / 10
