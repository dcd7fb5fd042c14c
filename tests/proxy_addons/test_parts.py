from __future__ import annotations

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.proxy_addons.parts import BadPart, Part, decode, encode
from tests.proxy_addons.spools import any_part, chunk, closed, opened, unhurried


@unhurried
@given(any_part)
def test_a_part_comes_back(part: Part) -> None:
    assert decode(encode(part)) == part


@unhurried
@given(st.binary(max_size=100))
def test_any_bytes_are_a_part_or_refused(junk: bytes) -> None:
    with contextlib.suppress(BadPart):
        decode(junk)


json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@unhurried
@given(any_part, st.data())
def test_a_field_of_another_kind_is_refused_or_read(part: Part, data: st.DataObject) -> None:
    line, _, rest = encode(part).partition(b"\n")
    fields = orjson.loads(line)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(json)
    with contextlib.suppress(BadPart):
        decode(orjson.dumps(fields) + b"\n" + rest)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (encode(chunk(1, b"abc")), b"fewer"),
        (encode(opened(1)).replace(b'"opened_ms":', b'"opened_ms":1e999,"x":'), b""),
        (encode(opened(1)).replace(b'"exchange":1', b'"exchange":true'), b""),
        (encode(closed(1)).replace(b'"complete"', b'"exploded"'), b""),
        (encode(closed(1)).replace(b'"close"', b'"later"'), b""),
        (encode(closed(1)).replace(b"\n", b""), b""),
    ],
)
def test_what_is_refused(good: bytes, bad: bytes) -> None:
    with pytest.raises(BadPart):
        decode(good + bad)


def test_anybody_can_read_a_part() -> None:
    line, _, body = encode(opened(7, body=b"\n\xff")).partition(b"\n")
    assert orjson.loads(line) == {
        "kind": "open",
        "exchange": 7,
        "upstream": "up",
        "method": "POST",
        "path": "/v1/messages",
        "headers": [["a", "b"]],
        "opened_ms": 1_796_000_000_000.0,
    }
    assert body == b"\n\xff"
