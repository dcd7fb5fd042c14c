"""What each call of a session is for. Pure.

A title, a probe, a safety check serve an agent without being part of its talk, and are told by
their tools and their schema. A compaction is told by what became of its answer: it came back in a
user's message, and the talk before it was gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentx.datasets.recorded import ANSWERS, Facts, Hash, Recorded
from agentx.datasets.trace.model import MAIN_AGENT, Kind

Messages = tuple[int, ...]
"""A call's context after the tools and the system prompt that begin it."""

TALK: frozenset[Kind] = frozenset({"main", "subagent"})


def kinds_of(
    calls: Sequence[Recorded],
    messages: Sequence[Messages],
    agents: Sequence[str],
    facts: Facts,
) -> list[Kind]:
    """The kinds of a session's calls, given in order of sending."""
    # By name: a tool whose wording changed is the same tool.
    tools = [
        frozenset(
            found.tool_name or ""
            for found in map(facts, call.context.tolist())
            if found.kind == "tool_definition"
        )
        for call in calls
    ]
    largest: dict[str, frozenset[str]] = {}
    prompts: dict[str, frozenset[int]] = {}
    for agent, has, content in zip(agents, tools, messages, strict=True):
        if len(has) > len(largest.get(agent, ())):
            largest[agent] = has
        if has and agent not in prompts:
            prompts[agent] = _user_texts(content, facts)
    kinds = [
        _kind(call, content, agent, has, largest.get(agent, frozenset()), prompts, facts)
        for call, content, agent, has in zip(calls, messages, agents, tools, strict=True)
    ]
    # A summary may be asked for without the agent's tools, but not without its talk.
    candidates = [
        kind in TALK or (kind == "other" and not has and _carries_talk(content, facts))
        for kind, has, content in zip(kinds, tools, messages, strict=True)
    ]
    by_agent: dict[str, list[int]] = {}
    for at, agent in enumerate(agents):
        if candidates[at]:
            by_agent.setdefault(agent, []).append(at)
    for line in by_agent.values():
        found = [
            *_came_back(line, calls, messages, kinds, facts),
            *_asked_for(line, calls, messages, facts),
        ]
        # An attempt that failed asked for the same.
        asked = {messages[at] for at in found}
        for at in line:
            if messages[at] in asked:
                kinds[at] = "compaction"
    return kinds


def _kind(
    call: Recorded,
    content: Messages,
    agent: str,
    tools: frozenset[str],
    largest: frozenset[str],
    prompts: Mapping[str, frozenset[int]],
    facts: Facts,
) -> Kind:
    plain: Kind = "main" if agent == MAIN_AGENT else "subagent"
    if call.count_only:
        return "count_tokens"
    if call.max_output == 1:
        return "probe"
    carries_talk = _carries_talk(content, facts)
    if "title" in call.hints and not tools and not carries_talk:
        return "title"
    if not largest or tools & largest:
        return plain
    # Its tools are not the agent's: it serves the agent without being part of its talk.
    if tools or carries_talk:
        return "other"
    same_prompt = prompts.get(agent, frozenset()) & _user_texts(content, facts)
    return "title" if "title?" in call.hints or same_prompt else "other"


def _carries_talk(content: Messages, facts: Facts) -> bool:
    return any(facts(segment).kind in ANSWERS for segment in content)


def _user_texts(content: Messages, facts: Facts) -> frozenset[int]:
    return frozenset(f.text for f in map(facts, content) if f.kind == "user")


# Compactions


def _came_back(
    line: Sequence[int],
    calls: Sequence[Recorded],
    messages: Sequence[Messages],
    kinds: Sequence[Kind],
    facts: Facts,
) -> Iterator[int]:
    """Calls whose answer came back in a user's message of a context without most of the talk."""
    lines: dict[int, frozenset[Hash]] = {}
    latest: dict[Hash, int] = {}
    known: set[int] = set()
    for at in line:
        if kinds[at] in TALK:
            new = [s for s in messages[at] if facts(s).kind == "user" and s not in known]
            said = frozenset[Hash]().union(*(facts(segment).mentions for segment in new))
            for call in dict.fromkeys(latest[text] for text in said if text in latest):
                if stands_in(lines[call], said) and _gone(messages[call], messages[at], facts):
                    yield call
            known.update(new)
        lines[at] = answer_lines(calls[at], facts)
        latest.update(dict.fromkeys(lines[at], at))


def _gone(before: Messages, after: Messages, facts: Facts) -> bool:
    """Whether most of what the model had said in a talk is no more there."""
    said = {segment for segment in before if facts(segment).kind in ANSWERS}
    return 2 * len(said & set(after)) < len(said)


def _asked_for(
    line: Sequence[int], calls: Sequence[Recorded], messages: Sequence[Messages], facts: Facts
) -> Iterator[int]:
    """Calls that end with an agent's instruction for a summary, and that the talk did not go on
    from. Wording is weak: what a user asks for goes on, with a tool's result or another word."""
    for at in line:
        if "compaction?" not in calls[at].hints or _calls_a_tool(calls[at], facts):
            continue
        size = len(messages[at])
        if not any(
            len(messages[other]) > size and messages[other][:size] == messages[at] for other in line
        ):
            yield at


def _calls_a_tool(call: Recorded, facts: Facts) -> bool:
    return any(facts(segment).kind == "tool_call" for segment in call.answer.tolist())


def answer_lines(call: Recorded, facts: Facts) -> frozenset[Hash]:
    """Hashes of an answer's longer lines, if it was text only."""
    if _calls_a_tool(call, facts):
        return frozenset()
    found = map(facts, call.answer.tolist())
    return frozenset[Hash]().union(*(f.mentions for f in found if f.kind == "assistant"))


def stands_in(lines: frozenset[Hash], said: frozenset[Hash]) -> bool:
    """Whether an answer's lines are among others: a good part of them, since agents cut off what
    a model thought aloud before its summary."""
    return bool(lines) and 3 * len(lines & said) >= len(lines)
