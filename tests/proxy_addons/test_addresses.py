from __future__ import annotations

import pytest

from agentx.proxy_addons.addresses import Listen, Upstream, parse_listen, parse_upstream
from agentx.proxy_addons.errors import CaptureError


@pytest.mark.parametrize(
    ("text", "upstream", "url"),
    [
        (
            "anthropic=https://api.anthropic.com",
            Upstream("anthropic", "https", "api.anthropic.com", 443),
            "https://api.anthropic.com",
        ),
        ("a=http://H:80/", Upstream("a", "http", "h", 80), "http://h"),
        (
            "local.1=http://127.0.0.1:8000",
            Upstream("local.1", "http", "127.0.0.1", 8000),
            "http://127.0.0.1:8000",
        ),
        ("six=http://[::1]:9", Upstream("six", "http", "::1", 9), "http://[::1]:9"),
    ],
)
def test_upstreams(text: str, upstream: Upstream, url: str) -> None:
    assert parse_upstream(text) == upstream
    assert upstream.url == url


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("https://api.anthropic.com", "has no name"),
        ("a b=https://x", "has no name"),
        ("a=api.anthropic.com", "no URL"),
        ("a=ftp://x", "no URL"),
        ("a=https://", "no URL"),
        ("a=https://x:port", "[Pp]ort"),
        ("a=https://x:99999", "[Pp]ort"),
        ("a=https://x/v1", "has a path"),
        ("a=https://x/?k=v", "nothing else"),
    ],
)
def test_what_is_no_upstream(text: str, says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        parse_upstream(text)


def test_a_credential_in_an_upstream_is_not_said_again() -> None:
    with pytest.raises(CaptureError) as error:
        parse_upstream("a=https://me:a-password@x")
    assert "a-password" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "listen", "url"),
    [
        ("127.0.0.1:8080", Listen("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        ("localhost:0", Listen("localhost", 0), "http://localhost:0"),
        ("[::1]:8080", Listen("::1", 8080), "http://[::1]:8080"),
        ("127.9.9.9:1", Listen("127.9.9.9", 1), "http://127.9.9.9:1"),
    ],
)
def test_where_to_listen(text: str, listen: Listen, url: str) -> None:
    assert parse_listen(text) == listen
    assert listen.url == url


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("8080", "no HOST:PORT"),
        (":8080", "no HOST:PORT"),
        ("127.0.0.1:http", "no HOST:PORT"),
        ("127.0.0.1:70000", "no HOST:PORT"),
        ("0.0.0.0:8080", "other machines"),
        ("[::]:8080", "other machines"),
        ("192.168.1.4:8080", "other machines"),
        ("myhost:8080", "other machines"),
    ],
)
def test_where_not_to_listen(text: str, says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        parse_listen(text)
