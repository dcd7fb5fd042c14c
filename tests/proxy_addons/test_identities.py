from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons import identities
from agentx.proxy_addons.identities import Pseudonyms, hide_identities
from tests.proxy_addons.spools import unhurried

HIDE = Pseudonyms(b"k" * 32)
DEVICE = "d" * 64
ACCOUNT = "11111111-2222-4333-8444-555555555555"
SESSION = "00000000-0000-4000-8000-000000000001"


def hidden(body: Any) -> Any:
    return orjson.loads(hide_identities(orjson.dumps(body), HIDE))


def test_claude_codes_user_keeps_only_its_session() -> None:
    user = {"device_id": DEVICE, "account_uuid": ACCOUNT, "session_id": SESSION}
    body = {"messages": [], "metadata": {"user_id": orjson.dumps(user).decode()}, "stream": True}
    result = hidden(body)
    assert orjson.loads(result["metadata"]["user_id"]) == {
        "device_id": HIDE.of(DEVICE),
        "account_uuid": HIDE.of(ACCOUNT),
        "session_id": SESSION,
    }
    assert result | {"metadata": None} == body | {"metadata": None}


def test_no_account_stays_no_account() -> None:
    user = '{"device_id":"' + DEVICE + '","account_uuid":"","session_id":"s"}'
    result = orjson.loads(hidden({"metadata": {"user_id": user}})["metadata"]["user_id"])
    assert result["account_uuid"] == ""


def test_the_older_spelling_of_a_user() -> None:
    user = f"user_{DEVICE}_account_{ACCOUNT}_session_{SESSION}"
    assert hidden({"metadata": {"user_id": user}})["metadata"]["user_id"] == (
        f"user_{HIDE.of(DEVICE)}_account_{HIDE.of(ACCOUNT)}_session_{SESSION}"
    )
    anonymous = f"user_{DEVICE}_account__session_{SESSION}"
    assert hidden({"metadata": {"user_id": anonymous}})["metadata"]["user_id"] == (
        f"user_{HIDE.of(DEVICE)}_account__session_{SESSION}"
    )


def test_other_clients_names_of_a_user() -> None:
    body = {
        "user": "bob",
        "safety_identifier": "bob@example.test",
        "metadata": {
            "user_id": "bob",
            "tags": ["bob", 7],
            "account": {"id": 12345, "paid": True, "none": None},
            "session_id": SESSION,
        },
        "messages": [{"role": "user", "content": "I am bob"}],
    }
    assert hidden(body) == {
        "user": HIDE.of("bob"),
        "safety_identifier": HIDE.of("bob@example.test"),
        "metadata": {
            "user_id": HIDE.of("bob"),
            "tags": [HIDE.of("bob"), HIDE.of("7")],
            "account": {"id": HIDE.of("12345"), "paid": True, "none": None},
            "session_id": SESSION,
        },
        "messages": [{"role": "user", "content": "I am bob"}],
    }


def test_every_other_byte_stays_as_it_was_sent() -> None:
    before, after = (
        b'{ "n": 1.50, "big": 123456789012345678901, "metadata" :\t',
        b', "s":"\\u00e9\\/"}',
    )
    body = before + b'{"user_id": "bob"}' + after
    assert hide_identities(body, HIDE) == before + orjson.dumps({"user_id": HIDE.of("bob")}) + after


def test_the_same_key_further_down_is_somebodys_data() -> None:
    body = {
        "tools": [{"input_schema": {"properties": {"metadata": {"type": "object"}, "user": {}}}}],
        "messages": [{"role": "user", "content": [{"input": {"user": "root", "metadata": "x"}}]}],
        "metadata": {"user_id": "bob"},
    }
    result = hidden(body)
    assert result | {"metadata": None} == body | {"metadata": None}
    assert result["metadata"] == {"user_id": HIDE.of("bob")}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"messages": []}',
        b'{"metadata": null, "user": 7, "messages": "\\"user\\": \\"x\\""}',
        b'{"metadata":',
        b'"metadata": {"user_id": "x"',
    ],
)
def test_what_names_nobody_stays_as_it_is(body: bytes) -> None:
    if body.startswith(b'{"metadata": null'):
        assert orjson.loads(hide_identities(body, HIDE))["metadata"] is None
    else:
        assert hide_identities(body, HIDE) == body


def test_a_body_that_is_no_json_is_searched_all_the_same() -> None:
    broken = b'{"metadata": {"user_id": "bob"}, "messages": ['
    assert b"bob" not in hide_identities(broken, HIDE)
    half_pair = b'{"messages": "\\ud83d", "metadata": {"user_id": "bob"}}'
    assert hide_identities(half_pair, HIDE) == (
        b'{"messages": "\\ud83d", "metadata": ' + orjson.dumps({"user_id": HIDE.of("bob")}) + b"}"
    )


def test_a_body_too_long_to_parse_is_searched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "PARSE_UP_TO", 10)
    assert hidden({"metadata": {"user_id": "bob"}, "x": "y"}) == {
        "metadata": {"user_id": HIDE.of("bob")},
        "x": "y",
    }


def test_an_escaped_key_or_a_value_too_long_to_splice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_LONGEST_VALUE", 20)
    assert hidden({"metadata": {"user_id": "bob" * 20}})["metadata"]["user_id"] == HIDE.of(
        "bob" * 20
    )
    twice = b'{"messages": "metadata", "met\\u0061data": {"user_id": "bob"}, "x": "metadata"}'
    assert b"bob" not in hide_identities(twice, HIDE)


def test_hashes_are_keyed_and_equal_for_equal() -> None:
    assert HIDE.of("bob") == Pseudonyms(b"k" * 32).of("bob") != Pseudonyms(b"l" * 32).of("bob")
    assert HIDE.of("bob") != HIDE.of("rob")
    assert HIDE.of("") == ""


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["meta", "users", "a", "session_id"]), inner)
    ),
    max_leaves=12,
)


@unhurried
@given(st.dictionaries(st.sampled_from(["metadata", "user", "messages", "x"]), values))
def test_a_body_stays_json_and_keeps_all_else(body: dict[str, Any]) -> None:
    result = hidden(body)
    assert list(result) == list(body)
    for key in body.keys() - {"metadata", "user"}:
        assert result[key] == body[key]


@unhurried
@given(st.binary(max_size=80) | st.text('{}[]":, \\metadatuser1', max_size=60).map(str.encode))
def test_any_bytes_are_taken(body: bytes) -> None:
    hide_identities(body, HIDE)
