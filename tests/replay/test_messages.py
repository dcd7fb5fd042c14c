from __future__ import annotations

from typing import Any

import orjson
import pytest

from agentx.replay.messages import CLOSE, Messages, add, count, cut, end_with_user, shared


def read(messages: Messages) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = orjson.loads(b"".join(p.text for p in messages) + CLOSE)
    return parsed


def texts(messages: Messages) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in read(messages)]


@pytest.fixture
def three() -> Messages:
    messages = add((), "system", b" one two", 2)
    messages = add(messages, "user", b" three", 1)
    messages = add(messages, "user", b" four five", 2)
    return add(messages, "assistant", b" six seven", 2)


THREE = [("system", "one two"), ("user", "three four five"), ("assistant", "six seven")]


def test_words_of_the_same_role_go_on_in_its_message(three: Messages) -> None:
    assert texts(three) == THREE
    assert count(three) == 3
    assert three[-1].end == 7


@pytest.mark.parametrize("words", range(1, 8))
def test_a_cut_keeps_words_and_roles(three: Messages, words: int) -> None:
    left = cut(three, words)
    assert left[-1].end == words
    kept = [word for _, text in texts(left) for word in text.split()]
    assert kept == ["one", "two", "three", "four", "five", "six", "seven"][:words]
    roles = [role for role, _ in texts(left)]
    assert roles == ["system", "user", "assistant"][: len(roles)]
    assert len(roles) == 1 + (words > 2) + (words > 5)


def test_a_cut_to_nothing_is_no_message(three: Messages) -> None:
    assert cut(three, 0) == ()


def test_the_last_word_becomes_a_users_where_no_user_is_last(three: Messages) -> None:
    assert texts(end_with_user(three)) == [*THREE[:2], ("assistant", "six"), ("user", "seven")]


def test_a_word_of_an_assistant_alone_joins_the_user_before_it(three: Messages) -> None:
    assert texts(end_with_user(cut(three, 6))) == [THREE[0], ("user", "three four five six")]


def test_a_system_message_alone_gives_up_its_last_word(three: Messages) -> None:
    assert texts(end_with_user(cut(three, 2))) == [("system", "one"), ("user", "two")]
    assert texts(end_with_user(cut(three, 1))) == [("user", "one")]


def test_a_users_message_last_is_left_alone(three: Messages) -> None:
    assert end_with_user(cut(three, 4)) == cut(three, 4)


def test_messages_are_shared_until_one_goes_on_or_is_cut(three: Messages) -> None:
    assert shared(three, three) == 3
    assert shared(add(three, "user", b" more", 1), three) == 3
    assert shared(add(three, "assistant", b" more", 1), three) == 2
    assert shared(cut(three, 6), three) == 2
    assert shared(cut(three, 5), three) == 2
    assert shared(cut(three, 3), three) == 1
    assert shared(three, ()) == 0
