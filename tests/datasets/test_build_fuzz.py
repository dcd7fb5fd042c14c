"""Whatever agents do, and whatever bytes come: a build ends with a data set that holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentx.datasets.build import build
from agentx.datasets.parquet.reader import open_dataset
from agentx.proxy_addons.wire.exchange import Exchange
from tests.captured import exchange, write_spool
from tests.datasets.talks import BASH, TASK, ask, call, result, said, user
from tests.proxy_addons.wire.test_anthropic import json_values

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROMPTS = ["Look at the files of this project.", "Count all the lines in them, please."]
messages = st.lists(
    st.sampled_from(
        [
            user(PROMPTS[0]),
            user(PROMPTS[1]),
            user("a-subagent has ended", "ok"),
            said("I will look."),
            said(call("t1", "Task", prompt=PROMPTS[1])),
            said("I will look.", call("t2", "Bash", command="ls")),
            result("t1", "from a-subagent: done"),
            result("t2", "README.md"),
        ]
    ),
    max_size=6,
)


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    return ask(
        draw(messages),
        draw(st.none() | st.sampled_from([said("I will look."), said(PROMPTS[0])]))
        or said("Go on.", call(draw(st.sampled_from(["t1", "t2"])), "Task", prompt=PROMPTS[1])),
        at=draw(st.integers(0, 50)),
        took=draw(st.none() | st.integers(0, 60)),
        session=draw(st.sampled_from([None, "one", "two"])),
        agent=draw(st.sampled_from([None, None, "a-subagent", "another-1"])),
        tools=draw(st.sampled_from([(), (BASH,), (BASH, TASK)])),
        ended=draw(st.sampled_from(["complete", "client_gone", "upstream_error"])),
        status=draw(st.sampled_from([200, 200, 529, None])),
        path=draw(st.sampled_from(["/v1/messages", "/v1/messages", "/v1/messages/count_tokens"])),
    )


def build_of(found: list[Exchange]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spool = write_spool(folder / "spool", sorted(found, key=lambda e: e.opened_ms))
        built = build([spool], folder / "dataset")
        # Reading checks all that must hold of a session.
        sessions = list(open_dataset(folder / "dataset").sessions())
        assert sum(len(s.requests) for s in sessions) == built.info.counts.requests
        dropped = sum(d.count for d in built.info.dropped.values() if d.what == "exchanges")
        assert built.info.counts.requests + dropped == len(found)


@few
@given(st.lists(exchanges(), min_size=1, max_size=12))
def test_any_tangle_of_talks(found: list[Exchange]) -> None:
    build_of(found)


@few
@given(st.lists(st.tuples(json_values, json_values, json_values), min_size=1, max_size=3))
def test_any_values(values: list[tuple[Any, Any, Any]]) -> None:
    found = []
    for path in ("/v1/messages", "/v1/chat/completions"):
        for tools, system, said_ in values:
            body = {"tools": tools, "system": system, "messages": said_, "metadata": tools}
            answer = {"content": said_, "choices": said_, "usage": system, "error": None}
            # Python's own writer takes numbers of any size, and so does the wire.
            sent, came = json.dumps(body).encode(), json.dumps(answer).encode()
            found.append(exchange(sent, path=path, answer=came))
    build_of(found)
