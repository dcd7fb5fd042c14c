from __future__ import annotations

import base64
from urllib.parse import unquote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.providers import REQUEST_HEADERS, RESPONSE_HEADERS, dialect_of
from agentx.proxy_addons.redact import (
    StreamMask,
    clean_path,
    kept_headers,
    mask,
    secrets_of,
)
from agentx.proxy_addons.secrecy import is_secret
from agentx.proxy_addons.wire.exchange import Chunk
from tests.proxy_addons.spools import unhurried

KEY = "sk-ant-api03-0123456789"

secrets = st.text("abc-_/+=.0", min_size=8, max_size=30).filter(is_secret)
latin = st.text(st.characters(max_codepoint=255), max_size=30)


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Proxy-Authorization",
        "X-Api-Key",
        "api-key",
        "X-Goog-Api-Key",
        "X-Amz-Security-Token",
        "X-Auth-Token",
        "Cookie",
        "Set-Cookie",
        "x-litellm-api-key",
        "Ocp-Apim-Subscription-Key",
        "CF-Access-Client-Secret",
        "X-Goog-IAP-JWT-Assertion",
    ],
)
def test_a_credential_is_dropped_and_masked_wherever_it_stands(name: str) -> None:
    headers = ((name, KEY), ("User-Agent", f"agent/1 {KEY}"), ("X-Unknown", "who knows"))
    found = secrets_of(headers, "/")
    assert kept_headers(headers, REQUEST_HEADERS, found) == (
        ("user-agent", "agent/1 " + "*" * len(KEY)),
    )
    assert KEY.encode() not in mask(f'{{"key": "{KEY}"}}'.encode(), found)


def test_the_parts_of_a_credential_are_found() -> None:
    basic = base64.b64encode(b"me:pa55-w0rd!").decode()
    found = secrets_of(
        (
            ("Authorization", f"Bearer {KEY}"),
            ("Proxy-Authorization", f"Basic {basic}"),
            ("Cookie", "session=c00kie9value; theme=anthropic"),
        ),
        "/v1?key=fr0m4%2Dquery&beta=true",
    )
    for secret in (KEY, f"Bearer {KEY}", basic, "pa55-w0rd!", "c00kie9value", "fr0m4-query"):
        assert secret.encode() in found
    assert list(found) == sorted(found, key=lambda secret: -len(secret))
    assert b"true" not in found
    assert b"anthropic" not in found


def test_a_credential_is_masked_as_json_writes_it() -> None:
    secret = 'quo"ted\\secret'
    found = secrets_of((("x-api-key", secret),), "/")
    body = orjson.dumps({"echo": secret})
    assert orjson.loads(mask(body, found)) == {"echo": "*" * len(orjson.dumps(secret)[1:-1])}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/gw/tok_live_PATHSECRET99/v1/messages", "/gw/redacted/v1/messages"),
        (
            "/openai/deployments/acme-gpt/chat/completions",
            "/openai/deployments/redacted/chat/completions",
        ),
        (
            "/api/organizations/00000000-0000-4000-8000-00000000000F/usage",
            "/api/organizations/redacted/usage",
        ),
        ("/v1beta/models/gemini-2.5-pro:stream?alt=sse", "/v1beta/models/redacted?alt=sse"),
        ("//v1/messages/", "//v1/messages/"),
        ("/v1/messages;s=1", "/v1/redacted"),
        ("*", "redacted"),
    ],
)
def test_of_a_path_only_harmless_words_are_kept(path: str, kept: str) -> None:
    assert clean_path(path, ()) == kept


parts = st.sampled_from(
    ["", "v1", "messages", "chat", "completions", "count_tokens", "me", "m%2Fv1"]
)


@unhurried
@given(st.lists(parts, max_size=6), st.sampled_from(["", "?", "?beta=true", "?a/v1/messages"]))
def test_a_cleaned_path_is_of_the_same_dialect(said: list[str], query: str) -> None:
    path = "/" + "/".join(said) + query
    assert dialect_of("POST", clean_path(path, ())) == dialect_of("POST", path)


def test_what_is_kept_of_a_query() -> None:
    path = f"/v1/messages?beta=true&key={KEY}&x=1&flag&alt=sse&{KEY}=1"
    assert clean_path(path, ()) == (
        "/v1/messages?beta=true&key=redacted&x=redacted&redacted&alt=sse&redacted"
    )


@pytest.mark.parametrize(
    "path", ["/gw/{}/v1/messages", "/v1/messages?{}", "/v1/messages?{}=1", "/v1/messages?key={}"]
)
def test_a_key_in_a_path_is_looked_for_too(path: str) -> None:
    secret = "tok_live_PATHSECRET99"
    for spelled in (secret, secret.replace("_", "%5F")):
        assert secret not in unquote(clean_path(path.format(spelled), ()))
        found = secrets_of((), path.format(spelled))
        assert mask(f'"{secret}"'.encode(), found) == b'"' + b"*" * len(secret) + b'"'


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o-mini-2024-07-18",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "Llama-3.1-8B-Instruct",
        "Qwen3-235B-A22B-Instruct-2507-FP8",
        "mixtral-8x7b-instruct",
    ],
)
def test_a_models_name_in_a_path_is_no_secret(name: str) -> None:
    assert secrets_of((), f"/openai/deployments/{name}/chat/completions") == ()


@unhurried
@given(
    st.sampled_from(["authorization", "x-api-key", "cookie", "x-some-token"]),
    secrets,
    latin,
    latin,
)
def test_no_credential_is_left_anywhere(name: str, secret: str, before: str, after: str) -> None:
    text = before + secret + after
    headers = ((name, f"Bearer {secret}"), ("user-agent", text), ("content-type", secret))
    path = f"/v1/{secret}/x?key={secret}&beta={secret}"
    found = secrets_of(headers, path)
    kept = kept_headers(headers, REQUEST_HEADERS, found)
    assert secret not in clean_path(path, found)
    assert [value for _, value in kept if secret in value] == []
    assert [len(value) for _, value in kept] == [len(text), len(secret)]
    body = text.encode("latin-1")
    assert secret.encode() not in mask(body, found)
    assert len(mask(body, found)) == len(body)


@unhurried
@given(
    st.lists(secrets, min_size=1, max_size=3),
    st.lists(st.text("abc-_/+=.0", max_size=12), max_size=12),
    st.data(),
)
def test_a_stream_is_masked_as_if_it_had_come_at_once(
    found: list[str], texts: list[str], data: st.DataObject
) -> None:
    whole = "".join(
        data.draw(st.sampled_from(found)) if data.draw(st.booleans()) else text for text in texts
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    headers = tuple(("x-api-key", secret) for secret in found)
    known = secrets_of(headers, "/")
    masking = StreamMask(known)
    done: list[Chunk] = []
    for number, piece in enumerate(pieces):
        done += masking.feed([Chunk(float(number), piece)])
    done += masking.flush()

    joined = b"".join(chunk.data for chunk in done)
    assert len(joined) == len(whole)
    assert not [secret for secret in known if secret in joined]
    assert [chunk.at_ms for chunk in done] == sorted(chunk.at_ms for chunk in done)
    # Every byte keeps the time it came at.
    for number, piece in enumerate(pieces):
        assert sum(len(chunk.data) for chunk in done if chunk.at_ms == number) == len(piece)


def test_a_stream_without_credentials_is_passed_through_as_it_is() -> None:
    chunks = [Chunk(1.0, b"a"), Chunk(2.0, b"")]
    assert StreamMask(()).feed(chunks) == chunks
    assert StreamMask((b"secret-key",)).feed(chunks) == chunks


def test_only_the_beginning_of_a_credential_is_held_back() -> None:
    masking = StreamMask((b"secret-key",))
    assert masking.feed([Chunk(1.0, b"data: secret")]) == [Chunk(1.0, b"data: ")]
    assert masking.feed([Chunk(2.0, b"-garden")]) == [Chunk(1.0, b"secret"), Chunk(2.0, b"-garden")]
    assert masking.flush() == []


def test_no_header_that_the_reading_side_needs_is_dropped() -> None:
    needed = {"x-claude-code-session-id", "x-claude-code-agent-id", "x-session-id"}
    assert needed | {"x-parent-session-id"} <= REQUEST_HEADERS
    assert {"content-type", "content-encoding"} <= REQUEST_HEADERS & RESPONSE_HEADERS


@pytest.mark.parametrize(
    ("method", "path", "dialect"),
    [
        ("POST", "/v1/messages?beta=true", "anthropic"),
        ("POST", "/v1/messages/count_tokens", "anthropic"),
        ("POST", "/anthropic/v1/messages/", "anthropic"),
        ("POST", "/api/v1/chat/completions", "chat"),
        ("GET", "/v1/messages", None),
        ("HEAD", "/", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/v1/oauth/token?next=/v1/messages", None),
    ],
)
def test_which_calls_are_of_a_model(method: str, path: str, dialect: str | None) -> None:
    assert dialect_of(method, path) == dialect
