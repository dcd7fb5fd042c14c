"""The text of a session's requests: made once, shared between turns, dropped when last used.

Bytes are made for what is new in a request; the rest are the pieces of an earlier one. Pure; the
rules are in docs/design/0002-synthetic-text.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agentx.datasets.trace.block_runs import Blocks
from agentx.datasets.trace.model import Session
from agentx.replay.compose import Composer
from agentx.replay.messages import CLOSE, Messages, count, end_with_user, shared
from agentx.replay.plan import SessionPlan
from agentx.replay.streams import streams
from agentx.replay.words import Words


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages of one request."""

    pieces: tuple[bytes, ...]
    """Joined: a JSON array of messages, ASCII, without white space between its elements."""
    messages: int
    words: int
    kept_messages: int
    """Leading messages that the request with which it shares most has too, unchanged."""

    def json(self) -> bytes:
        """The array in one piece (a copy)."""
        return b"".join(self.pieces)


class SessionText:
    """Texts of one session's kept requests.

    `lists` are the block integers of every request of the session, in order; `salt` chooses the
    words: the same salt and data give the same bytes, another salt shares nothing. A trace token
    is `words_per_token` words, 1 where the server counts a word as one token.
    """

    def __init__(
        self,
        session: Session,
        plan: SessionPlan,
        lists: Iterable[Blocks],
        *,
        block_size: int,
        salt: bytes,
        words_per_token: float = 1.0,
    ) -> None:
        self._streams = streams(session, plan, lists, block_size)
        self._composer = Composer(session, block_size, words_per_token, Words(salt))
        self._made: dict[int, tuple[Messages, int]] = {}
        """Messages that are still needed, and how many of them were kept."""
        self._to_come = Counter(stream.donor for stream in self._streams.values())
        """By request: how many that go on from it are not made yet."""
        self._to_come.update(self._streams.keys())

    def words(self, index: int) -> int:
        """How many words the prompt of a kept request has."""
        return self._composer.words(self._streams[index].tokens)

    def prompt(self, index: int) -> Prompt:
        """The messages of a kept request; to be asked for once each, in any order."""
        self._make(index)
        messages, kept = self._made[index]
        self._use(index)
        messages = end_with_user(messages)
        pieces = (*(piece.text for piece in messages), CLOSE)
        return Prompt(pieces, count(messages), messages[-1].end, kept)

    def _make(self, index: int) -> None:
        """Make a request's messages, and before them those that they go on from."""
        chain: list[int] = []
        at: int | None = index
        while at is not None and at not in self._made:
            chain.append(at)
            at = self._streams[at].donor
        for request in reversed(chain):
            stream = self._streams[request]
            donor: Messages = () if stream.donor is None else self._made[stream.donor][0]
            messages = self._composer.compose(request, stream, donor)
            self._made[request] = messages, shared(messages, donor)
            if stream.donor is not None:
                self._use(stream.donor)

    def _use(self, index: int) -> None:
        """Drop messages that nothing will be made from any more."""
        self._to_come[index] -= 1
        if not self._to_come[index]:
            del self._made[index]
