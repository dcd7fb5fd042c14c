"""Wrong types and values in a trace: one sentence with the file, the request and the field."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.datasets.errors import DatasetError
from agentx.datasets.formats.files import Record
from agentx.datasets.formats.weka import BlockNumbers, to_session
from agentx.datasets.formats.weka_fields import is_trace, parse
from agentx.datasets.parquet.checks import Numbering, check_session
from tests.datasets.formats.weka_made import Json, request, session, subagent, trace

GOOD = trace(
    [request(0, [1, 2]), subagent(30, [request(0, [9])]), request(40, [1, 2, 3], type="s", ttft=1)]
)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("t", -1, "t is -1, not a number between 0 and"),
        ("t", "0", "t is '0', not a number"),
        ("t", None, "t is None, not a number"),
        ("t", True, "t is True, not a number"),
        ("t", 1e300, "t is 1e\\+300, not a number"),
        ("in", -5, "in is -5, not a count"),
        ("in", None, "in is None, not a count"),
        ("in", True, "in is True, not a count"),
        ("in", 5.5, "in is 5.5, not a count"),
        ("in", 1 << 60, "in is 1152921504606846976, not a count"),
        ("in", 10**30, "in is 1e\\+30, not a count"),
        ("out", None, "out is None, not a count"),
        ("out", [], "out is \\[\\], not a count"),
        ("type", "x", "type is 'x', neither 'n' nor 's'"),
        ("type", 5, "type is 5, not a short text"),
        ("model", 5, "model is 5, not a short text"),
        ("model", "m" * 5000, "model is 'mmm.*…, not a short text"),
        ("stop", {}, "stop is {}, not a short text"),
        ("api_time", -0.5, "api_time is -0.5, not a number"),
        ("api_time", "fast", "api_time is 'fast', not a number"),
        ("ttft", False, "ttft is False, not a number"),
        ("think_time", [1], "think_time is \\[1\\], not a number"),
        ("input_types", "text", "input_types is no list of names"),
        ("output_types", [1], "output_types is no list of names"),
        ("hash_ids", None, "hash_ids is None, not a list"),
        ("hash_ids", {}, "hash_ids is {}, not a list"),
        ("hash_ids", [1, None], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, 2.0], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, "2"], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, True], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, [2]], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, 1 << 63], "hash_ids holds something that is no whole number"),
        ("hash_ids", [1, -2], "hash_ids holds -2; ids are not negative"),
        ("hash_ids", [1, 2, 3, 4], "4 hash_ids, but its 133 tokens fill no more than 2 blocks"),
    ],
)
@pytest.mark.parametrize("place", [(0,), (1, 0)])
def test_a_wrong_field_of_a_request(
    place: tuple[int, ...], field: str, value: object, message: str
) -> None:
    document = copy.deepcopy(GOOD)
    row: Any = document["requests"][place[0]]
    if len(place) > 1:
        row["requests"] = [request(0, [8, 9])]
        row = row["requests"][place[1]]
    row[field] = value
    where = ".".join(map(str, place))
    with pytest.raises(DatasetError, match=rf"^a\.json, request {where}: {message}"):
        session_of_any(document)


def session_of_any(document: Json) -> None:
    # orjson writes no number beyond 64 bits, but a file may have one.
    data = json.dumps(document).encode()
    record = Record(orjson.loads(data), "a.json", "a", b"true" in data or b"false" in data)
    to_session(parse(record), BlockNumbers(), "a")


@pytest.mark.parametrize("field", ["t", "in", "out", "hash_ids"])
def test_a_field_that_is_missing(field: str) -> None:
    document = copy.deepcopy(GOOD)
    del document["requests"][2][field]
    with pytest.raises(DatasetError, match=rf"^a\.json, request 2: {field} is missing"):
        session(document)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": None}, "requests is None, not a list"),
        ({"requests": {"0": 1}}, "requests is .*, not a list"),
        ({"requests": [5]}, "request 0 is no object"),
        ({"requests": [[]]}, "request 0 is no object"),
        ({"block_size": 0}, "block_size is 0"),
        ({"block_size": "64"}, "block_size is '64', not a count"),
        ({"block_size": 1 << 30}, "block_size is 1073741824"),
        ({"hash_id_scope": "world"}, "hash_id_scope is 'world', neither local nor global"),
        ({"id": 5}, "id is 5, not a short text"),
        ({"tool_tokens": -1}, "tool_tokens is -1, not a count"),
    ],
)
def test_a_wrong_field_of_a_trace(changes: Json, message: str) -> None:
    with pytest.raises(DatasetError, match=rf"^a\.json[:,] {message}"):
        session(GOOD | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t": None}, "t is None, not a number"),
        ({"duration_ms": -1}, "duration_ms is -1, not a number"),
        ({"duration_ms": "long"}, "duration_ms is 'long', not a number"),
        ({"agent_id": 7}, "agent_id is 7, not a short text"),
        ({"requests": 7}, "requests is 7, not a list"),
        ({"total_tokens": 1.5}, "total_tokens is 1.5, not a count"),
        ({"requests": [subagent(3, [])]}, "type is 'subagent' .a subagent within a subagent"),
    ],
)
def test_a_wrong_field_of_a_subagent(changes: Json, message: str) -> None:
    document = copy.deepcopy(GOOD)
    document["requests"][1] |= changes
    with pytest.raises(DatasetError, match=rf"^a\.json, request 1(\.0)?: {message}"):
        session(document)


def test_optional_fields_may_be_null() -> None:
    empty = dict.fromkeys(
        ("api_time", "ttft", "think_time", "model", "stop", "input_types", "output_types", "type")
    )
    assert session(trace([request(0, [1], **empty)])).requests[0].model is None


def test_more_keys_than_known_are_fine() -> None:
    document = copy.deepcopy(GOOD)
    document["extra"] = {"deep": [1, True]}
    document["requests"][0]["note"] = None
    assert len(session(document).requests) == 3


def test_a_source_may_say_a_negative_think_time() -> None:
    assert session(trace([request(0, [1], think_time=-1.0)])).requests[0].think_source_ms == -1000


@pytest.mark.parametrize("value", [None, [], {}, 5, {"requests": []}, {"block_size": 64}])
def test_what_is_no_trace(value: object) -> None:
    assert not is_trace(value)
    with pytest.raises(DatasetError, match=r"a\.json is no weka trace"):
        parse(Record(value, "a.json", "a", False))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*GOOD, *GOOD["requests"][1]]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_trace_with_anything_in_it_is_a_session_or_a_sentence(data: st.DataObject) -> None:
    document = copy.deepcopy(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        target: Any = document
        while True:
            keys = list(target) if isinstance(target, dict) else list(range(len(target)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(target[key], dict | list) and data.draw(st.booleans()):
                target = target[key]
                continue
            target[key] = data.draw(junk | st.integers(0, 3) | st.lists(st.integers(0, 3)))
            break
    record = Record(document, "a.json", "a", True)
    try:
        parsed = parse(record)
        made = to_session(parsed, BlockNumbers(), "a")
    except DatasetError as error:
        refused = str(error)
    else:
        refused = "a.json"
        check_session(made, parsed.block_size)
        Numbering().check(made)
    assert refused.startswith("a.json")
