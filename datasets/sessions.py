"""Which calls belong together: sessions by the agents' own ids, lines of conversation in them.

Pure. Two sessions in one work tree share nearly all of their system prompt and tools, so that a
shared beginning alone joins nothing: a call without ids joins an earlier one only if it carries
the whole of its context and its answer, or begins with a prompt that a tool call of it gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentx.datasets.kinds import kinds_of
from agentx.datasets.recorded import ANSWERS, Facts, Hash, Recorded
from agentx.datasets.trace.model import MAIN_AGENT, Kind


class SessionFinder:
    """Names the session of each call, as they come in order of sending."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._nodes: dict[tuple[int, int], int] = {}
        """A tree of the contexts without ids: (node, segment) → node."""
        self._open: dict[int, list[tuple[frozenset[int], str]]] = {}
        """By the node where a context ends: the answer's segments, and its session."""
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
        found: str | None = None
        for segment in call.context.tolist():
            for answer, session in self._open.get(node, ()):
                if segment in answer:
                    found = session
            node = self._nodes.setdefault((node, segment), len(self._nodes) + 1)
        found = found or self._prompted(call)
        if found is None:
            self._unnamed += 1
            found = f"none:{self._unnamed}"
        answer = call.answer.tolist()
        if answer:
            self._open.setdefault(node, []).append((frozenset(answer), found))
        for facts in map(self._facts, answer):
            if facts.kind == "tool_call":
                self._prompts.update(dict.fromkeys(facts.mentions, found))
        return found

    def _prompted(self, call: Recorded) -> str | None:
        context = [self._facts(segment) for segment in call.context.tolist()]
        if any(found.kind in ANSWERS for found in context):
            return None
        texts = [found.text for found in context if found.kind == "user"]
        return next((self._prompts[text] for text in texts if text in self._prompts), None)


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
    prompts: set[int] = set()
    begun: dict[tuple[int, ...], str] = {}
    agents: list[tuple[str, str]] = []
    for call, content in zip(calls, messages, strict=True):
        own = call.agent
        if own is None and call.session is not None and f"id:{call.session}" != root:
            own = call.session
        if own is not None:
            agents.append((own, "id"))
        elif (started := _started(content, begun)) is not None:
            agents.append((started, "prompt"))
        elif _is_prompt(content, prompts, facts):
            begun[content] = f"prompt:{len(begun)}"
            agents.append((begun[content], "prompt"))
        else:
            agents.append((MAIN_AGENT, "id" if call.session is not None else "prefix"))
        for segment in call.answer.tolist():
            if facts(segment).kind == "tool_call":
                prompts |= facts(segment).mentions
    return agents


def _started(content: tuple[int, ...], begun: Mapping[tuple[int, ...], str]) -> str | None:
    for first, agent in begun.items():
        if content[: len(first)] == first:
            return agent
    return None


def _is_prompt(content: tuple[int, ...], prompts: set[int], facts: Facts) -> bool:
    """Whether a conversation begins, and with a text that a tool call gave."""
    found = [facts(segment) for segment in content]
    if any(f.kind in ANSWERS for f in found):
        return False
    return any(f.kind == "user" and f.text in prompts for f in found)
