"""What an endless cache would have hit, in the order in which a run was sent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentx.datasets.trace.model import Session
from agentx.replay.theoretical import Hit, Taken, taken, theoretical_hits
from tests.replay.traces import Told, request, session, told_sessions

GROWING = session(
    request(0, blocks=[0, 1], context_tokens=35),
    request(1, blocks=[0, 1, 2, 3], context_tokens=70, parent=0, keep_blocks=2),
    request(2, blocks=[0, 1, 9], context_tokens=48, parent=1, keep_blocks=2),
)


def hits(order: list[Taken], *sessions: Session) -> dict[tuple[str, int], Hit]:
    by_id = {one.session_id: one for one in sessions}
    return theoretical_hits(order, by_id.__getitem__, 16)


def test_a_prompt_hits_what_was_sent_before_it() -> None:
    order = [Taken("s", index, True) for index in range(3)]
    assert hits(order, GROWING) == {
        ("s", 0): Hit(0, 0),
        ("s", 1): Hit(32, 35),  # with the parent's tail of 3 tokens, if a server's blocks are fine
        ("s", 2): Hit(32, 32),  # rewritten: only whole blocks are promised
    }


def test_a_prompt_that_the_server_did_not_take_is_in_no_cache() -> None:
    order = [Taken("s", 0, False), Taken("s", 1, True), Taken("s", 2, True)]
    assert hits(order, GROWING) == {("s", 1): Hit(0, 0), ("s", 2): Hit(32, 32)}


def test_sessions_that_share_blocks_share_hits() -> None:
    other = replace(GROWING, session_id="t")
    order = [Taken("s", 0, True), Taken("t", 0, True)]
    # The tails may be equal too: 35 tokens are all that there are.
    assert hits(order, GROWING, other)["t", 0] == Hit(32, 35)


def test_what_another_session_had_after_the_shared_blocks_bounds_by_a_block() -> None:
    longer = session(request(0, blocks=[0, 1, 7], context_tokens=60))
    other = replace(longer, session_id="t")
    order = [Taken("s", 0, True), Taken("t", 0, True)]
    assert hits(order, GROWING, other)["t", 0] == Hit(32, 47)


def test_a_session_is_loaded_once_and_let_go() -> None:
    loads: list[str] = []

    def load(session_id: str) -> Session:
        loads.append(session_id)
        return GROWING

    theoretical_hits([Taken("s", index, True) for index in range(3)], load, 16)
    assert loads == ["s"]


def test_rows_are_ordered_by_their_sends_and_taken_by_their_status() -> None:
    rows = [("a", 1, 20.0, 200), ("a", 0, 10.0, 503), ("b", 0, 15.0, None)]
    assert taken(rows) == [Taken("a", 0, False), Taken("b", 0, False), Taken("a", 1, True)]


@given(told_sessions(), st.data())
def test_hits_are_those_of_a_list_of_everything_sent(told: Told, data: st.DataObject) -> None:
    indices = [one.request for one in told.session.requests]
    order = [
        Taken("s", index, data.draw(st.booleans())) for index in data.draw(st.permutations(indices))
    ]
    found = theoretical_hits(order, lambda _: told.session, told.block_size)
    seen: set[int] = set()
    for sent in order:
        if not sent.taken:
            assert ("s", sent.request) not in found
            continue
        blocks = told.lists[sent.request].tolist()
        expected = next((i for i, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        hit = found["s", sent.request]
        assert hit.blocks == expected * told.block_size
        assert hit.blocks <= hit.upper <= len(told.contexts[sent.request])
