"""An address in the forms that people give it."""

from __future__ import annotations

import pytest

from agentx.replay.endpoint import parse_url
from agentx.replay.errors import ReplayError


@pytest.mark.parametrize(
    ("given", "chat", "root"),
    [
        ("http://h:80", "http://h:80/v1/chat/completions", "http://h:80"),
        ("http://h/v1", "http://h/v1/chat/completions", "http://h"),
        ("http://h/v1/", "http://h/v1/chat/completions", "http://h"),
        ("https://h/api/v1", "https://h/api/v1/chat/completions", "https://h/api"),
        (" http://[::1]:8000/ ", "http://[::1]:8000/v1/chat/completions", "http://[::1]:8000"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions", "http://h"),
    ],
)
def test_with_or_without_v1(given: str, chat: str, root: str) -> None:
    endpoint = parse_url(given)
    assert endpoint.chat == chat
    assert endpoint.root == root


@pytest.mark.parametrize(
    "given",
    ["localhost:8000", "h", "", "ftp://h", "http://", "http://h:x", "http://h?a=1", "http://u:p@h"],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ReplayError):
        parse_url(given)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ReplayError) as caught:
        parse_url("http://user:hunter2@host")
    assert "hunter2" not in str(caught.value)
