"""Session trees: of the fixtures as expected, and of talks that go every way a talk can go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from agentx.datasets.trace.model import Request, Session
from tests.captured import exchange, fixture_exchanges
from tests.datasets.talks import (
    BASH,
    ask,
    built,
    call,
    one,
    result,
    said,
    user,
)

FIRST = user("Please list the files of this project.")
LIST = said("I will look.", call("t1", command="ls"))
LISTED = result("t1", "README.md app.py")
DONE = said("There are two files in it, README.md and app.py.")
MORE = user("And now count them.")


def parents(session: Session) -> list[int | None]:
    return [request.parent for request in session.requests]


def kinds(session: Session) -> list[str]:
    return [request.kind for request in session.requests]


# The fixtures


def expected_trees(folder: Path, agent: str) -> list[list[dict[str, Any]]]:
    """Of each session the expected rows, in order, with edges by their position in it."""
    rows = orjson.loads((folder / "expected.json").read_bytes())[agent]["requests"]
    sessions: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["agent"] != "noise":
            sessions.setdefault(row["session"], []).append(row)
    for session in sessions.values():
        place = {row["index"]: at for at, row in enumerate(session)}
        for row in session:
            parent = None if row["parent"] is None else place[row["parent"]]
            row["continues"] = parent if row["relation"] == "continues" else None
            row["spawned"] = parent if row["relation"] == "spawned_by" else None
            note = str(row.get("note"))
            row["kind"] = "compaction" if note.startswith("compaction") else row["agent"]
    return list(sessions.values())


def check_fixture(folder: Path, agent: str, sessions: list[Session]) -> None:
    expected = expected_trees(folder, agent)
    canonical = {
        e["index"]: e for e in orjson.loads((folder / "canonical.json").read_bytes())[agent] if e
    }
    assert len(sessions) == len(expected)
    for rows, session in zip(expected, sessions, strict=True):
        assert kinds(session) == [row["kind"] for row in rows]
        assert parents(session) == [row["continues"] for row in rows]
        agents: dict[str, str] = {}
        for row, request in zip(rows, session.requests, strict=True):
            assert agents.setdefault(row.get("agent_id", "main"), request.agent_id) == (
                request.agent_id
            )
            if row["spawned"] is not None:
                assert request.spawned_by == row["spawned"]
            check_counts(row, canonical[row["index"]], request)
        assert len(set(agents.values())) == len(agents)
        assert agents.get("main", "main") == "main"


def check_counts(row: dict[str, Any], canonical: dict[str, Any], request: Request) -> None:
    usage = row["usage"]
    assert request.input_tokens == usage["input"]
    assert request.cached_tokens == usage["cached"]
    assert request.cache_write_tokens == usage.get("cache_write")
    assert request.output_tokens == usage["output"]
    assert request.context_tokens == canonical["context_tokens"]
    assert request.blocks == canonical["context_tokens"] // 16
    assert request.keep_tokens == canonical.get("keep_tokens")
    assert request.keep_blocks == canonical.get("keep_blocks_16")
    assert request.opaque_tokens == 0
    assert request.status == "ok"
    if row["append_only"] is not None and request.parent is not None:
        whole = request.keep_tokens == canonical["parent_context_tokens"]
        assert whole == row["append_only"]


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_trees_usage_and_counts_of_the_fixtures(
    agent: str, fixtures_dir: Path, tmp_path: Path
) -> None:
    folder = fixtures_dir / "capture"
    sessions = built(tmp_path, fixture_exchanges(folder / agent))
    check_fixture(folder, agent, sessions)
    # Every answer of an agent's but its last stands in a later context, a compaction's too.
    for session in sessions:
        talk = [r for r in session.requests if r.kind in ("main", "subagent", "compaction")]
        lasts = {request.agent_id: request.request for request in talk}
        again = {r.request for r in talk if r.output_context_tokens is not None}
        assert again == {request.request for request in talk} - set(lasts.values())
    with_subagent = sessions[1]
    assert [r.waits_for for r in with_subagent.requests] == [(), (), (), (), (3,)]
    assert with_subagent.requests[2].edge_evidence == "id"


@pytest.mark.shared
@pytest.mark.parametrize("agent", ["claude-code-forward", "mini-swe-agent"])
def test_more_fixtures(agent: str, shared_dir: Path, tmp_path: Path) -> None:
    folder = shared_dir / "capture"
    sessions = built(tmp_path, fixture_exchanges(folder / agent))
    check_fixture(folder, agent, sessions)
    # All their turns are tools', one of them with nothing but a reference to a tool.
    followed = [r.think_kind for s in sessions for r in s.requests if r.parent is not None]
    assert followed
    assert set(followed) == {"tool"}


# Lines of talk


def test_a_talk_goes_on_from_call_to_call(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask([FIRST, LIST, LISTED, DONE, MORE], said("Two."), at=5000),
        ],
    )
    first, second, third = session.requests
    assert parents(session) == [None, 0, 1]
    assert (first.think_ms, first.think_kind) == (None, None)
    assert (second.think_ms, second.think_kind) == (200, "tool")
    assert (third.think_ms, third.think_kind) == (4600, "user")
    assert [r.sent_ms for r in session.requests] == [0, 300, 5000]
    assert second.end_ms == 400
    # What came back is counted as it stands in the next context, markers and all.
    appended = [s for s in session.segments if s.request == 1]
    assert [s.kind for s in appended] == ["assistant", "tool_call", "tool_result"]
    assert first.output_context_tokens == sum(s.tokens for s in appended[:2])
    assert [s.tool_name for s in appended] == [None, "Bash", "Bash"]
    assert [s.position for s in appended] == [4, 5, 6]
    assert third.output_context_tokens is None
    assert first.tool_names == ("Bash",)
    (agent,) = session.agents
    head = [s.tokens for s in session.segments if s.request == 0]
    assert (agent.tool_tokens, agent.system_tokens) == (sum(head[:2]), head[2])
    assert (first.edge_evidence, second.edge_evidence) == (None, "id")
    assert second.edge_confidence == 1.0


IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}


@pytest.mark.parametrize(
    "content",
    [
        "README.md app.py",
        "",
        None,
        [],
        [IMAGE],
        [{"type": "tool_reference", "tool_name": "late"}],
    ],
)
@pytest.mark.parametrize("reminder", [False, True])
@pytest.mark.parametrize("changed", [False, True])
def test_a_tool_turn_is_a_tools_time_whatever_its_result(
    content: Any, reminder: bool, changed: bool, tmp_path: Path
) -> None:
    back = result("t1", content)
    if reminder:
        back["content"].append(user("<reminder>Mind the files.</reminder>")["content"][0])
    dated = user("<reminder>It is Tuesday.</reminder>", *(b["text"] for b in FIRST["content"]))
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([dated if changed else FIRST, LIST, back], DONE, at=300),
            ask([FIRST, LIST, back, DONE, MORE], said("Two."), at=900),
        ],
    )
    assert [r.think_kind for r in session.requests] == [None, "tool", "user"]
    assert [r.output_context_tokens is None for r in session.requests] == [False, False, True]


def test_a_tool_of_the_servers_is_no_tool_of_the_agents(tmp_path: Path) -> None:
    search = {"type": "server_tool_use", "id": "v1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "v1", "content": [{"url": "u"}]}
    answer = said("Let me search.", search, found, "It is there.")
    session = one(tmp_path, [ask([FIRST], answer, at=0), ask([FIRST, answer, MORE], DONE, at=900)])
    first, second = session.requests
    assert second.think_kind == "user"
    appended = [s.tokens for s in session.segments if s.request == 1]
    assert first.output_context_tokens == sum(appended[:4])


def test_an_answer_is_counted_where_it_stands_whatever_became_of_what_was_before(
    tmp_path: Path,
) -> None:
    """Old results cleared, a first message that changes, a turn in between that left it out."""
    second = said("I will look.", call("t2", command="ls"))
    listed = result("t2", "README.md app.py setup.py")
    cleared = result("t1", "[cleared]")
    monday, tuesday = (
        user(f"<reminder>It is {day}.</reminder>", "Please list the files.")
        for day in ("Monday", "Tuesday")
    )
    session = one(
        tmp_path,
        [
            ask([monday], LIST, at=0),
            ask([monday, LIST, LISTED], second, at=300),
            ask([monday, LIST, cleared, second, listed], DONE, at=900),
            ask([monday, LIST, cleared, second, listed, MORE], None, at=1500, status=529),
            ask([tuesday, LIST, cleared, second, listed, DONE, MORE], said("Two."), at=2000),
        ],
    )
    assert parents(session) == [None, 0, 1, 2, 2]
    tokens = {s.position: s.tokens for s in session.segments if s.request == 4}
    assert [r.output_context_tokens for r in session.requests] == [
        sum(s.tokens for s in session.segments if s.request == 1 and s.position in (5, 6)),
        sum(s.tokens for s in session.segments if s.request == 2 and s.position in (8, 9)),
        tokens[11],
        None,
        None,
    ]


def test_an_answer_that_never_comes_again_has_no_count(tmp_path: Path) -> None:
    """Another answer that begins with the same words is another answer."""
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], said("I will look.", call("t2", command="cat")), at=300),
            ask([user("Start again."), LIST, LISTED, MORE], DONE, at=900),
        ],
    )
    assert [r.output_context_tokens is None for r in session.requests] == [False, True, True]


def test_a_changed_tool_costs_the_prefix_not_the_thread(tmp_path: Path) -> None:
    changed = ({**BASH, "description": "another"},)
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0, tools=(BASH,)),
            ask([FIRST, LIST, LISTED], DONE, at=300, tools=changed),
        ],
    )
    request = session.requests[1]
    assert request.parent == 0
    assert request.keep_blocks == 0
    assert 0 < (request.keep_tokens or 0) < 16


def test_a_repeated_request_goes_on_from_the_one_that_failed(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], None, at=300, status=529),
            ask([FIRST, LIST, LISTED], None, at=900, ended="client_gone"),
            ask([FIRST, LIST, LISTED], DONE, at=1500),
            ask([FIRST, LIST, LISTED, DONE, MORE], said("Two."), at=5000),
        ],
    )
    assert parents(session) == [None, 0, 1, 2, 3]
    assert [r.status for r in session.requests] == ["ok", "error", "cancelled", "ok", "ok"]
    assert [r.error for r in session.requests] == [None, "http_529", None, None, None]


def test_of_two_equal_requests_the_one_whose_answer_follows_is_the_parent(tmp_path: Path) -> None:
    other = said("Let me see what is in the project first.")
    session = one(
        tmp_path,
        [
            ask([FIRST], DONE, at=0),
            ask([FIRST], other, at=10),
            ask([FIRST, DONE, MORE], said("Two."), at=900),
        ],
    )
    assert parents(session) == [None, 0, 0]


def test_going_back_goes_on_from_the_call_that_was_gone_back_to(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask([FIRST, LIST, LISTED, DONE, MORE], said("Two."), at=900),
            ask([FIRST, LIST, LISTED, DONE, user("No, sort them.")], said("Sorted."), at=2000),
        ],
    )
    assert parents(session) == [None, 0, 1, 1]


def test_a_talk_whose_history_was_edited_goes_on_from_its_last_answer(tmp_path: Path) -> None:
    """Old results are cleared; the call id of the last answer tells whose it is."""
    second = said("I will look.", call("t2", command="ls"))
    cleared = result("t1", "[cleared]")
    listed = result("t2", "README.md app.py setup.py")
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], second, at=300),
            ask([FIRST, LIST, cleared, second, listed], DONE, at=900),
        ],
    )
    assert parents(session) == [None, 0, 1]
    assert (session.requests[2].keep_tokens or 0) < session.requests[1].context_tokens


def test_a_summary_makes_its_request_a_compaction(tmp_path: Path) -> None:
    order = user("Write down all that matters, so that we can go on without the history.")
    summary = said("The project has two files.\nThe user wants them to be counted.")
    start = user("What was before:\n" + summary["content"][0]["text"] + "\nGo on from there.")
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask([FIRST, LIST, LISTED, DONE, order], summary, at=900),
            ask([start, MORE], said("Two."), at=2000),
            ask([start, MORE, said("Two."), user("Thanks a lot.")], said("Welcome."), at=3000),
        ],
    )
    assert kinds(session) == ["main", "main", "compaction", "main", "main"]
    assert parents(session) == [None, 0, 1, 2, 3]
    assert session.requests[2].output_context_tokens is None


SUMMARY = (
    "The project has two files.\nThe user wants them to be counted.\nNothing else is to be done."
)


@pytest.mark.parametrize("tools", [(), None, ({"name": "Bash", "input_schema": {}},)])
@pytest.mark.parametrize("thought", ["", "I go through it message by message.\nFirst, a list.\n"])
@pytest.mark.parametrize("keeps", [0, 1])
def test_a_compaction_is_told_by_where_its_answer_came_back(
    tools: Any, thought: str, keeps: int, tmp_path: Path
) -> None:
    """With the agent's tools, or none; whole, or without what was thought aloud; after the talk's
    beginning, or alone."""
    extra: dict[str, Any] = {} if tools is None else {"tools": tools}
    talk = [FIRST, LIST, LISTED, DONE, user("Condense all of it.")]
    start = [*[FIRST][:keeps], user("What was before:\n" + SUMMARY, "Go on.")]
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask(talk, None, at=900, status=529, **extra),
            ask(talk, said(thought + SUMMARY), at=1200, **extra),
            ask(start, said("Two."), at=2000),
            ask([*start, said("Two."), user("Thanks. " + SUMMARY)], said("Yes."), at=3000),
        ],
    )
    assert kinds(session) == [*("main", "main", "compaction", "compaction", "main", "main")]
    assert parents(session) == [None, 0, 1, 2, 3, 4]


WISH = "Write a summary of this conversation into NOTES.md, please."
INSTRUCTION = (
    "Your task is to create a detailed summary of this conversation so far. " + "Be thorough. " * 20
)


@pytest.mark.parametrize("wish", [WISH, INSTRUCTION])
def test_a_users_wish_for_a_summary_is_no_compaction(wish: str, tmp_path: Path) -> None:
    write = said("Sure.", call("t2", command="write NOTES.md"))
    talk = [FIRST, LIST, LISTED, DONE, user(wish), write, result("t2", "written")]
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask(talk[:5], write, at=900),
            ask(talk, said("It is written."), at=1200),
            ask(
                [*talk, said("It is written."), user(wish)], said("Once more: two files."), at=2000
            ),
            ask(
                [*talk, said("It is written."), user(wish), said("Once more: two files."), MORE],
                said("Two."),
                at=3000,
            ),
        ],
    )
    assert kinds(session) == ["main"] * 6
    assert parents(session) == [None, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "kind"), [(WISH, "main"), (INSTRUCTION, "compaction"), ("Reminder.\n", "main")]
)
def test_an_agents_instruction_that_nothing_followed_is_a_compaction(
    text: str, kind: str, tmp_path: Path
) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0),
            ask([FIRST, LIST, LISTED], DONE, at=300),
            ask([FIRST, LIST, LISTED, DONE, user(text)], said(SUMMARY), at=900),
        ],
    )
    assert kinds(session) == ["main", "main", kind]
    assert parents(session) == [None, 0, 1]


def test_a_quoted_answer_is_no_compaction(tmp_path: Path) -> None:
    """Though an earlier message changes every time, the talk is still there."""
    monday, tuesday = (
        user(f"<reminder>It is {day}.</reminder>", "Please list the files.")
        for day in ("Monday", "Tuesday")
    )
    quote = user("You said:\n" + DONE["content"][0]["text"] + "\nIs that so?")
    session = one(
        tmp_path,
        [
            ask([monday], LIST, at=0),
            ask([monday, LIST, LISTED], DONE, at=300),
            ask([tuesday, LIST, LISTED, DONE, quote], said("Yes."), at=900),
        ],
    )
    assert kinds(session) == ["main", "main", "main"]
    assert parents(session) == [None, 0, 1]


def test_a_new_start_within_a_session_is_no_compaction(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], DONE, at=0),
            ask([user("Something else, please.")], said("Yes, what should it be?"), at=2000),
        ],
    )
    assert kinds(session) == ["main", "main"]
    assert parents(session) == [None, 0]
    assert session.requests[1].edge_confidence == 0.5


# Calls beside the talk


def test_calls_beside_the_talk_are_told_apart(tmp_path: Path) -> None:
    schema = {"type": "json_schema", "schema": {"properties": {"title": {"type": "string"}}}}
    session = one(
        tmp_path,
        [
            ask([user("quota")], said("#"), at=0, tools=(), max_tokens=1),
            ask([FIRST], said("A title"), at=10, tools=(), output_config={"format": schema}),
            ask([FIRST], None, at=15, path="/v1/messages/count_tokens"),
            ask([FIRST], LIST, at=20),
            ask([FIRST], said("Files"), at=30, tools=(), system="You write things."),
            ask([user("Is it safe?")], said("yes"), at=40, tools=(), system="You judge."),
            ask([user("Find it")], said("found"), at=50, tools=({"name": "web_search"},)),
            ask([FIRST, LIST, LISTED], DONE, at=300),
        ],
    )
    assert kinds(session) == [
        "probe",
        "title",
        "count_tokens",
        "main",
        "title",
        "other",
        "other",
        "main",
    ]
    assert parents(session) == [None, None, None, None, None, None, None, 3]
    assert {request.agent_id for request in session.requests} == {"main"}


def test_an_agent_without_tools_is_no_title(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], DONE, at=0, tools=(), system="Give each file a title."),
            ask([FIRST, DONE, MORE], said("Two."), at=500, tools=()),
        ],
    )
    assert kinds(session) == ["main", "main"]
    assert parents(session) == [None, 0]


# Subagents

PROMPT = "Look at app.py and report the function names."
START = said("I will ask.", call("t1", "Task", prompt=PROMPT, kind="general"))
REPORT = said("It has one function, greet.")
SUB_CALL = said("Let me read it.", call("u1", command="cat app.py"))
SUB_RESULT = result("u1", "def greet(): ...")


def subagent(first: float, agent: str | None = "a1234567") -> list[Any]:
    return [
        ask([user(PROMPT)], SUB_CALL, at=first, agent=agent, tools=(BASH,)),
        ask(
            [user(PROMPT), SUB_CALL, SUB_RESULT], REPORT, at=first + 200, agent=agent, tools=(BASH,)
        ),
    ]


@pytest.mark.parametrize(
    ("agent", "text", "evidence"),
    [
        ("a1234567", "greet (agentId: a1234567)", "id"),
        ("a1234567", "greet", "prompt"),
        (None, "greet", "prompt"),
    ],
)
def test_a_subagent_and_who_waits_for_it(
    agent: str | None, text: str, evidence: str, tmp_path: Path
) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], START, at=0),
            *subagent(150, agent),
            ask([FIRST, START, result("t1", text)], DONE, at=1000),
            ask([FIRST, START, result("t1", text), DONE, MORE], said("Two."), at=2000),
        ],
    )
    assert kinds(session) == ["main", "subagent", "subagent", "main", "main"]
    assert parents(session) == [None, None, 1, 0, 3]
    assert [r.spawned_by for r in session.requests] == [None, 0, 0, None, None]
    # Only the first to carry the result waited for it.
    assert [r.waits_for for r in session.requests] == [(), (), (), (2,), ()]
    assert session.requests[1].edge_evidence == evidence
    assert session.requests[1].think_ms == 50
    # From the subagent's end, not from the parent's.
    assert session.requests[3].think_ms == 1000 - 450
    assert [a.agent_id for a in session.agents] == ["main", "agent-1"]
    assert [a.spawned_by for a in session.agents] == [None, 0]


def test_two_subagents_at_once(tmp_path: Path) -> None:
    other = "Look at README.md and sum it up."
    both = said(call("t1", "Task", prompt=PROMPT), call("t2", "Task", prompt=other))
    results: dict[str, Any] = {
        "role": "user",
        "content": [*result("t1", "greet")["content"], *result("t2", "short")["content"]],
    }
    session = one(
        tmp_path,
        [
            ask([FIRST], both, at=0),
            ask([user(PROMPT)], REPORT, at=150, agent="one", tools=(BASH,)),
            ask([user(other)], said("It is short."), at=160, agent="two", tools=(BASH,)),
            ask([FIRST, both, results], DONE, at=1000),
        ],
    )
    assert [r.spawned_by for r in session.requests] == [None, 0, 0, None]
    assert session.requests[3].waits_for == (1, 2)


def test_a_subagent_in_the_background_is_waited_for_by_whom_its_report_reaches(
    tmp_path: Path,
) -> None:
    launched = result("t1", "Started in the background as a1234567.")
    wait = said("I will wait.", call("t9", command="sleep 1"))
    note: dict[str, Any] = {
        "role": "user",
        "content": [
            *result("t9", "")["content"],
            {"type": "text", "text": "Agent a1234567 has ended: greet"},
        ],
    }
    session = one(
        tmp_path,
        [
            ask([FIRST], START, at=0),
            *subagent(150),
            ask([FIRST, START, launched], wait, at=300),
            ask([FIRST, START, launched, wait, note], DONE, at=1000),
        ],
    )
    agents = [request.agent_id for request in session.requests]
    assert agents == ["main", "agent-1", "main", "agent-1", "main"]
    last = session.requests[4]
    assert last.waits_for == (3,)
    assert all(r.waits_for == () for r in session.requests[:4])


@pytest.mark.parametrize(
    ("agent", "text"), [("a1234567", "Done (agentId: a1234567)"), (None, "All of it is done.")]
)
def test_a_subagent_may_end_with_a_call_for_a_tool(
    agent: str | None, text: str, tmp_path: Path
) -> None:
    """Its report was the call's argument, or it was stopped after so many turns."""
    report = said(call("u2", "attempt_completion", result="All of it is done."))
    session = one(
        tmp_path,
        [
            ask([FIRST], START, at=0),
            ask([user(PROMPT)], SUB_CALL, at=150, agent=agent, tools=(BASH,)),
            ask([user(PROMPT), SUB_CALL, SUB_RESULT], report, at=350, agent=agent, tools=(BASH,)),
            ask([FIRST, START, result("t1", text)], DONE, at=1000),
        ],
    )
    assert [r.waits_for for r in session.requests] == [(), (), (), (2,)]
    assert session.requests[3].think_ms == 1000 - 450


def test_a_subagent_that_nothing_names_hangs_on_the_last_call_for_a_tool(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        [
            ask([FIRST], START, at=0),
            ask([user("quite another prompt")], REPORT, at=150, agent="x1", tools=(BASH,)),
        ],
    )
    request = session.requests[1]
    assert (request.spawned_by, request.edge_evidence, request.edge_confidence) == (
        0,
        "position",
        0.5,
    )


def test_a_subagent_whose_start_was_not_captured_has_no_spawner(tmp_path: Path) -> None:
    session = one(tmp_path, [ask([user(PROMPT)], REPORT, at=0, agent="x1")])
    (request,) = session.requests
    assert (request.kind, request.spawned_by, request.edge_evidence) == ("subagent", None, None)


def test_sessions_of_their_own_are_joined_by_their_parents(tmp_path: Path) -> None:
    def chat(at: float, prompt: str, session: str, parent: str | None) -> Any:
        headers = {"x-session-id": session}
        if parent is not None:
            headers["x-parent-session-id"] = parent
        return exchange(
            {
                "tools": [{"function": {"name": "f"}}],
                "messages": [{"role": "user", "content": prompt}],
            },
            path="/v1/chat/completions",
            headers=headers,
            at_ms=at,
        )

    session = one(
        tmp_path,
        [
            chat(0, "top", "ses_top", None),
            chat(10, "child", "ses_child", "ses_top"),
            chat(20, "grandchild", "ses_grandchild", "ses_child"),
            chat(30, "a circle", "ses_top", "ses_grandchild"),
        ],
    )
    agents = [request.agent_id for request in session.requests]
    assert agents == ["main", "agent-1", "agent-2", "main"]


# Calls without ids


def test_without_ids_only_who_carries_context_and_answer_goes_on(tmp_path: Path) -> None:
    anonymous: dict[str, Any] = {"session": None}
    sessions = built(
        tmp_path,
        [
            ask([FIRST], LIST, at=0, **anonymous),
            ask([FIRST], DONE, at=10, **anonymous),
            ask([FIRST, LIST, LISTED], DONE, at=300, **anonymous),
            ask([user("Another task here.")], DONE, at=400, **anonymous),
            ask([FIRST, DONE, MORE], said("Two."), at=900, **anonymous),
        ],
    )
    assert [len(s.requests) for s in sessions] == [2, 2, 1]
    assert [parents(s) for s in sessions] == [[None, 0], [None, 0], [None]]
    assert sessions[0].requests[1].edge_evidence == "prefix"


def test_without_ids_a_subagent_is_found_by_its_prompt(tmp_path: Path) -> None:
    anonymous: dict[str, Any] = {"session": None}
    back = result("t1", "greet")
    run = said("I will look.", call("t1", command="ls -la"))
    sessions = built(
        tmp_path,
        [
            ask([FIRST], START, at=0, **anonymous),
            ask([user(PROMPT)], SUB_CALL, at=150, tools=(BASH,), **anonymous),
            ask([user(PROMPT), SUB_CALL, SUB_RESULT], REPORT, at=300, tools=(BASH,), **anonymous),
            ask([FIRST, START, back], DONE, at=1000, **anonymous),
            ask([user("Another task here.")], run, at=2000, **anonymous),
            # A short argument proves nothing.
            ask([user("ls -la")], DONE, at=3000, **anonymous),
        ],
    )
    assert [len(s.requests) for s in sessions] == [4, 1, 1]
    first = sessions[0]
    assert kinds(first) == ["main", "subagent", "subagent", "main"]
    assert parents(first) == [None, None, 1, 0]
    assert [r.spawned_by for r in first.requests] == [None, 0, 0, None]
    assert first.requests[3].waits_for == (2,)
    assert first.requests[1].edge_evidence == "prompt"


def test_an_answer_that_comes_back_without_its_thinking_is_carried_all_the_same(
    tmp_path: Path,
) -> None:
    thought: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "s"}
    anonymous: dict[str, Any] = {"session": None}
    sessions = built(
        tmp_path,
        [
            ask(
                [FIRST], said(thought, "I will look.", call("t1", command="ls")), at=0, **anonymous
            ),
            ask([FIRST, LIST, LISTED], DONE, at=300, **anonymous),
        ],
    )
    assert [parents(s) for s in sessions] == [[None, 0]]
    appended = [s.tokens for s in sessions[0].segments if s.request == 1][:2]
    assert sessions[0].requests[0].output_context_tokens == sum(appended)


ANONYMOUS: dict[str, Any] = {"session": None}


@pytest.mark.parametrize(
    "arguments",
    [
        {"tasks": [{"prompt": PROMPT, "kind": "general"}]},
        {"prompts": [PROMPT]},
        {"task": {"more": {"prompt": PROMPT + " "}}},
    ],
)
@pytest.mark.parametrize(
    "text", [PROMPT, f"<task>\n{PROMPT}\n</task>\n<env>x</env>", f"Do: <prompt>{PROMPT}</prompt>"]
)
def test_without_ids_a_prompt_is_found_in_nested_arguments_and_between_tags(
    arguments: Any, text: str, tmp_path: Path
) -> None:
    start = said("I will ask.", call("t1", "Task", **arguments))
    session = one(
        tmp_path,
        [
            ask([FIRST], start, at=0, **ANONYMOUS),
            ask([user(text)], REPORT, at=150, tools=(BASH,), **ANONYMOUS),
            ask([FIRST, start, result("t1", "greet")], DONE, at=1000, **ANONYMOUS),
        ],
    )
    assert kinds(session) == ["main", "subagent", "main"]
    assert [r.spawned_by for r in session.requests] == [None, 0, None]
    assert session.requests[2].waits_for == (1,)


def test_a_tag_that_holds_an_argument_by_chance_joins_nothing(tmp_path: Path) -> None:
    path = "/home/dev/project/app.py"
    read = said("I will look.", call("t1", "Read", path=path))
    sessions = built(
        tmp_path,
        [
            ask([FIRST], read, at=0, **ANONYMOUS),
            ask([user(f"<cwd>{path}</cwd>\n{path}\n<task>x")], DONE, at=150, **ANONYMOUS),
        ],
    )
    assert [len(s.requests) for s in sessions] == [1, 1]


def test_without_ids_helpers_with_one_prompt_are_told_apart(tmp_path: Path) -> None:
    start = said(call("t1", "Task", prompt=PROMPT), call("t2", "Task", prompt=PROMPT))
    reads = [said(f"Helper {i}.", call(f"u{i}", command=f"cat {i}")) for i in range(2)]
    backs = [result(f"u{i}", f"file {i}") for i in range(2)]
    votes = [said(f"I vote {i} for good reasons.") for i in range(2)]
    both: dict[str, Any] = {
        "role": "user",
        "content": [*result("t1", "vote 0")["content"], *result("t2", "vote 1")["content"]],
    }
    helper: dict[str, Any] = {"tools": (BASH,), **ANONYMOUS}
    session = one(
        tmp_path,
        [
            ask([FIRST], start, at=0, **ANONYMOUS),
            ask([user(PROMPT)], None, at=150, status=529, **helper),
            ask([user(PROMPT)], reads[0], at=160, **helper),
            ask([user(PROMPT)], reads[1], at=170, **helper),
            ask([user(PROMPT), reads[1], backs[1]], votes[1], at=400, **helper),
            ask([user(PROMPT), reads[0], backs[0]], votes[0], at=410, **helper),
            ask([FIRST, start, both], DONE, at=1000, **ANONYMOUS),
        ],
    )
    agents = [request.agent_id for request in session.requests]
    assert agents == ["main", *("agent-1",) * 2, *("agent-2",) * 2, "agent-1", "main"]
    assert parents(session) == [None, None, 1, None, 3, 2, 0]
    assert session.requests[6].waits_for == (4, 5)


@pytest.mark.parametrize("first", ["title", "talk"])
def test_without_ids_a_title_belongs_to_the_talk_that_it_is_for(first: str, tmp_path: Path) -> None:
    both = ["title", "talk"] if first == "title" else ["talk", "title"]
    system = "Give the conversation a title."
    exchanges = [
        ask([FIRST], said("Files"), at=at, tools=(), system=system, **ANONYMOUS)
        if what == "title"
        else ask([FIRST], LIST, at=at, **ANONYMOUS)
        for at, what in ((0, both[0]), (20, both[1]))
    ]
    sessions = built(
        tmp_path,
        [
            *exchanges,
            ask([FIRST, LIST, LISTED], DONE, at=300, **ANONYMOUS),
            ask([FIRST], said("What kind of them?"), at=400, **ANONYMOUS),
            ask([user("Another.")], said("X"), at=500, tools=(), system=system, **ANONYMOUS),
        ],
    )
    names = ["title" if what == "title" else "main" for what in both]
    assert [kinds(s) for s in sessions] == [[*names, "main"], ["main"], ["main"]]


@pytest.mark.parametrize("failed", [{"status": 529}, {"ended": "client_gone"}])
def test_without_ids_the_next_attempt_belongs_to_the_one_that_failed(
    failed: Any, tmp_path: Path
) -> None:
    sessions = built(
        tmp_path,
        [
            ask([FIRST], None, at=0, **failed, **ANONYMOUS),
            ask([FIRST], None, at=100, **failed, **ANONYMOUS),
            ask([FIRST], LIST, at=200, **ANONYMOUS),
            ask([FIRST], LIST, at=300, **ANONYMOUS),
        ],
    )
    assert [parents(s) for s in sessions] == [[None, 0, 1], [None]]


def test_without_ids_twins_go_on_each_by_itself(tmp_path: Path) -> None:
    """They began and were answered alike; which one is which cannot be known, nor matters."""
    more = [user("And three?"), user("And four?")]
    sessions = built(
        tmp_path,
        [
            ask([FIRST], DONE, at=0, **ANONYMOUS),
            ask([FIRST], DONE, at=10, **ANONYMOUS),
            ask([FIRST, DONE, more[0]], None, at=500, status=529, **ANONYMOUS),
            ask([FIRST, DONE, more[0]], said("No."), at=600, **ANONYMOUS),
            ask([FIRST, DONE, more[1]], said("Yes."), at=700, **ANONYMOUS),
            ask([FIRST, DONE, more[1], said("Yes."), MORE], said("So."), at=900, **ANONYMOUS),
        ],
    )
    assert [parents(s) for s in sessions] == [[None, 0, 1], [None, 0, 1]]
