"""Which calls belong together: sessions by the agents' own ids, lines of conversation in them.

Pure. Two sessions in one work tree share nearly all of their system prompt and tools, so that a
shared beginning alone joins nothing: a call without ids joins an earlier one only if it carries
the whole of its context and its answer, or begins with a prompt that a tool call of it gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentx.datasets.kinds import kinds_of
from agentx.datasets.recorded import ANSWERS, Facts, Hash, Recorded
from agentx.datasets.trace.model import MAIN_AGENT, Kind

_BESIDE_MS = 60_000.0
"""A title is asked for this long before or after the talk that it is for begins."""


@dataclass(slots=True)
class _Answered:
    """A call without ids: what its answer's segments are, and whether a call went on from it."""

    answer: frozenset[int]
    session: str
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class _Begun:
    """A call without ids that began a session."""

    session: str
    titles: bool
    has_tools: bool
    opened_ms: float


class SessionFinder:
    """Names the session of each call, as they come in order of sending."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._nodes: dict[tuple[int, int], int] = {}
        """A tree of the contexts without ids: (node, segment) → node."""
        self._open: dict[int, list[_Answered]] = {}
        """By the node where a context ends."""
        self._failed: dict[int, str] = {}
        """The same of calls that failed: their sessions, which the next attempt belongs to."""
        self._begun: dict[Hash, _Begun] = {}
        """By the last user's text of a call that began a talk."""
        self._prompts: dict[Hash, str] = {}
        """By the strings that tool calls without ids gave: their session."""
        self._parents: dict[str, str] = {}
        self._unnamed = 0

    def session_of(self, call: Recorded) -> str:
        """The call's own session; `root_of` tells which one that is part of."""
        if call.session is None:
            return self._continued(call)
        own, parent = f"id:{call.session}", call.parent_session
        if parent is not None and self.root_of(f"id:{parent}") != own:
            self._parents.setdefault(own, f"id:{parent}")
        return own

    def root_of(self, session: str) -> str:
        """The session that a session's agent was started from, from parent to parent."""
        while (parent := self._parents.get(session)) is not None:
            session = parent
        return session

    def _continued(self, call: Recorded) -> str:
        node = 0
        before: _Answered | None = None
        for segment in call.context.tolist():
            fits = [found for found in self._open.get(node, ()) if segment in found.answer]
            if fits:
                # Of twins, which begin and were answered alike, each goes on once.
                before = next((found for found in fits if not found.goes_on), fits[-1])
            node = self._nodes.setdefault((node, segment), len(self._nodes) + 1)
        found = self._failed.pop(node, None)
        if found is None and before is not None:
            before.goes_on = True
            found = before.session
        found = found or self._prompted(call) or self._beside(call)
        if call.status != "ok" and node:
            self._failed[node] = found
        answer = call.answer.tolist()
        if answer:
            self._open.setdefault(node, []).append(_Answered(frozenset(answer), found))
        for facts in map(self._facts, answer):
            if facts.kind == "tool_call":
                self._prompts.update(dict.fromkeys(facts.mentions, found))
        return found

    def _prompted(self, call: Recorded) -> str | None:
        context = [self._facts(segment) for segment in call.context.tolist()]
        if any(found.kind in ANSWERS for found in context):
            return None
        texts = (text for found in context if found.kind == "user" for text in found.texts)
        return next((self._prompts[text] for text in texts if text in self._prompts), None)

    def _beside(self, call: Recorded) -> str:
        """A new session, or that of the talk which a call makes a title for, or the other way
        round: both carry the same user's text, at about the same time."""
        self._unnamed += 1
        own = f"none:{self._unnamed}"
        context = [self._facts(segment) for segment in call.context.tolist()]
        said = [found.text for found in context if found.kind == "user"]
        if not said or any(found.kind in ANSWERS for found in context):
            return own
        has_tools = any(found.kind == "tool_definition" for found in context)
        titles = not has_tools and any(hint.startswith("title") for hint in call.hints)
        begun = self._begun.get(said[-1])
        if (
            begun is not None
            and begun.titles != titles
            and (has_tools or begun.has_tools)
            and call.opened_ms - begun.opened_ms <= _BESIDE_MS
        ):
            del self._begun[said[-1]]
            return begun.session
        self._begun[said[-1]] = _Begun(own, titles, has_tools, call.opened_ms)
        return own


@dataclass(frozen=True, slots=True)
class Placed:
    """A call, its agent and what it is for."""

    call: Recorded
    agent: str
    """`main`, or a subagent's own id."""
    kind: Kind
    evidence: str
    """`id` where the agent is known by an id, else `prompt` or `prefix`."""
    messages: tuple[int, ...]
    """Its context after the tools and the system prompt that begin it."""


def place(calls: Sequence[Recorded], root: str, facts: Facts) -> list[Placed]:
    """Each call of one session with its agent and kind, in the same order."""
    messages = [_messages(call, facts) for call in calls]
    agents = _agents(calls, messages, root, facts)
    kinds = kinds_of(calls, messages, [agent for agent, _ in agents], facts)
    return [
        Placed(call, agent, kind, evidence, content)
        for call, (agent, evidence), kind, content in zip(
            calls, agents, kinds, messages, strict=True
        )
    ]


def _messages(call: Recorded, facts: Facts) -> tuple[int, ...]:
    context = call.context.tolist()
    for at, segment in enumerate(context):
        if facts(segment).kind not in ("tool_definition", "system"):
            return tuple(context[at:])
    return ()


def _agents(
    calls: Sequence[Recorded], messages: Sequence[tuple[int, ...]], root: str, facts: Facts
) -> list[tuple[str, str]]:
    """By the agents' ids; of calls that have none, those that begin with the prompt of a tool call
    are a subagent's, and those that go on from them."""
    prompted = _Prompted(facts)
    agents: list[tuple[str, str]] = []
    for call, content in zip(calls, messages, strict=True):
        own = call.agent
        if own is None and call.session is not None and f"id:{call.session}" != root:
            own = call.session
        if own is not None:
            agents.append((own, "id"))
        elif (found := prompted.agent_of(call, content)) is not None:
            agents.append((found, "prompt"))
        else:
            agents.append((MAIN_AGENT, "id" if call.session is not None else "prefix"))
        prompted.answered(call)
    return agents


@dataclass(slots=True)
class _Helper:
    """A subagent without an id: how its talk began, and how far it has come."""

    agent: str
    first: tuple[int, ...]
    latest: tuple[int, ...]
    answer: frozenset[int]
    failed: bool


class _Prompted:
    """Finds the subagents of a session that have no ids, by the prompts that tool calls gave."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._given: Counter[Hash] = Counter()
        """How many tool calls gave a text."""
        self._helpers: list[_Helper] = []

    def answered(self, call: Recorded) -> None:
        """Take note of the texts that an answer's tool calls give."""
        for found in map(self._facts, call.answer.tolist()):
            if found.kind == "tool_call":
                self._given.update(found.mentions)

    def agent_of(self, call: Recorded, content: tuple[int, ...]) -> str | None:
        """The subagent whose call it is, if it is one's."""
        helper = self._going_on(content) or self._new(content)
        if helper is None:
            return None
        helper.latest, helper.answer = content, frozenset(call.answer.tolist())
        helper.failed = call.status != "ok"
        return helper.agent

    def _going_on(self, content: tuple[int, ...]) -> _Helper | None:
        same = [h for h in self._helpers if content[: len(h.first)] == h.first]
        if any(h.first == content for h in same):
            # Begun once more: another attempt, or another helper with the same prompt.
            again = next((h for h in same if h.failed and h.latest == content), None)
            return again or (same[-1] if len(same) >= self._prompts(content) else None)
        for helper in same:
            rest = content[len(helper.latest) :]
            if content[: len(helper.latest)] == helper.latest and helper.answer & set(rest[:1]):
                return helper
        return same[0] if same else None

    def _new(self, content: tuple[int, ...]) -> _Helper | None:
        if not self._prompts(content):
            return None
        agent = f"prompt:{len(self._helpers)}"
        self._helpers.append(_Helper(agent, content, content, frozenset(), failed=False))
        return self._helpers[-1]

    def _prompts(self, content: tuple[int, ...]) -> int:
        """How many tool calls gave the text that a conversation begins with."""
        found = [self._facts(segment) for segment in content]
        if any(f.kind in ANSWERS for f in found):
            return 0
        given = (self._given[text] for f in found if f.kind == "user" for text in f.texts)
        return max(given, default=0)
