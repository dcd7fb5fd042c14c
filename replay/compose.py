"""One request's messages, from its stream and the messages of the request that it goes on from.

Pure; the rules are in docs/design/0002-synthetic-text.md.
"""

from __future__ import annotations

import math

import numpy as np

from agentx.datasets.trace.model import Agent, Session
from agentx.replay.messages import Messages, Role, add, cut
from agentx.replay.streams import Stream
from agentx.replay.words import Words


class Composer:
    """Composes the requests of one session."""

    def __init__(
        self, session: Session, block_size: int, words_per_token: float, words: Words
    ) -> None:
        self._requests = session.requests
        self._system = _system_tokens(session, block_size)
        self._block_size = block_size
        self._ratio = words_per_token
        self._words = words

    def compose(self, index: int, stream: Stream, donor: Messages) -> Messages:
        """The messages of request `index`; `donor` are those of `stream.donor`, if any.

        They end as the trace's context does: to be sent, see `messages.end_with_user`.
        """
        total = self.words(stream.tokens)
        kept = self.words(stream.keep)
        # A line of its own that shares no more than (part of) another's system prompt goes on in
        # it for as long as its own is.
        if not kept or (stream.parent is None and kept <= donor[0].end):
            own = self.words(self._system[self._requests[index].agent_id])
            system = min(max(own, kept), total)
            messages = self._add(stream, (), "system", 0, system)
            return self._add(stream, messages, "user", system, total)
        messages = cut(donor, kept)
        at = kept
        if kept == donor[-1].end and donor[-1].role == "user":
            assert stream.donor is not None
            at += max(0, min(self._output(stream.donor), total - kept - 1))
            messages = self._add(stream, messages, "assistant", kept, at)
        return self._add(stream, messages, "user", at, total)

    def words(self, tokens: int) -> int:
        """Words that so many tokens from a context's beginning are; at least one for any.

        By place, so that the ratio holds in every context and prefixes stay prefixes.
        """
        return max(min(tokens, 1), math.floor(tokens * self._ratio))

    def _output(self, index: int) -> int:
        """Words of a request's output where it reappears; at least one if there was output."""
        request = self._requests[index]
        tokens = request.output_context_tokens
        if tokens is None:
            tokens = request.output_tokens
        return 1 if tokens is None else self.words(tokens)

    def _add(
        self, stream: Stream, messages: Messages, role: Role, start: int, end: int
    ) -> Messages:
        """The messages and the words of the stream from `start` to `end` as `role`'s."""
        if start >= end:
            return messages
        return add(messages, role, self._text(stream, start, end), end - start)

    def _text(self, stream: Stream, start: int, end: int) -> bytes:
        """Words `start` to `end` of a stream, each with a space before it."""
        size = self._block_size
        edges = np.arange(stream.first, stream.full + 1) * size
        ends = [stream.full * size + part.end for part in stream.tail]
        edges = np.concatenate((edges, np.array(ends, dtype=np.int64)))
        # As `words`, for all of them.
        places = np.maximum(np.minimum(edges, 1), np.floor(edges * self._ratio).astype(np.int64))
        tail_names = np.array([part.name for part in stream.tail], dtype=np.uint64)
        names = np.concatenate((stream.names.astype(np.uint64), tail_names))
        begins = np.clip(places[:-1], start, end)
        count = np.clip(places[1:], start, end) - begins
        # Words are numbered from their block's beginning, those of a tail from the tail's.
        bases = places[:-1].copy()
        bases[stream.full - stream.first :] = places[stream.full - stream.first]
        return self._words.text(names, begins - bases, count)


def _system_tokens(session: Session, block_size: int) -> dict[str, int]:
    """Tokens of each agent's system message: tools and system where known, else a block."""
    firsts = {r.agent_id: r.request for r in reversed(session.requests)}
    told = {agent.agent_id: _told(agent) for agent in session.agents}
    counted: dict[int, int] = {}
    for segment in session.segments:
        if segment.kind in ("tool_definition", "system"):
            counted[segment.request] = counted.get(segment.request, 0) + segment.tokens
    return {
        agent_id: told.get(agent_id) or counted.get(first) or block_size
        for agent_id, first in firsts.items()
    }


def _told(agent: Agent) -> int:
    return (agent.tool_tokens or 0) + (agent.system_tokens or 0)
