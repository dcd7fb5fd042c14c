"""Prompts with the names of their blocks, and a memory of those that came before.

Prompts come again and again, a little longer each time. The reader remembers the state of the hash
after each message of a conversation, so that a prompt costs a split and a hash of its new messages,
and one plain hash over the old ones. What it remembers is bounded; the least recently used goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, TypeAlias

from agentx.engine.cache import Name
from agentx.engine.tokens import TokenChain

Vocabulary: TypeAlias = Literal["words", "ids"]

_REMEMBERED_TOKENS = 16_000_000
_TOKENS_A_STATE = 256
"""What a remembered state costs besides its names, counted in tokens."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine needs to know of a prompt."""

    names: list[Name]
    """Of its full blocks. The list is the holder's own."""
    chain: TokenChain
    """After the last token; shared, so copy it before adding to it."""
    vocabulary: Vocabulary

    @property
    def tokens(self) -> int:
        """Its length."""
        return self.chain.tokens


@dataclass(frozen=True, slots=True)
class _State:
    names: list[Name]
    """Of the blocks that this text filled, those before it not among them."""
    chain: TokenChain
    cost: int


class PromptReader:
    """Turns texts and token ids into prompts."""

    def __init__(self, remembered_tokens: int = _REMEMBERED_TOKENS) -> None:
        self._room = remembered_tokens
        self._states: OrderedDict[bytes, _State] = OrderedDict()
        """By the hash of all texts up to one, the last used at the end."""

    def of_texts(self, texts: Iterable[str]) -> Prompt:
        """The prompt of all words of all texts in order; a text's end is a word's end."""
        names: list[Name] = []
        chain = TokenChain.of_words()
        key = b""
        for text in texts:
            key = blake2b(text.encode(), digest_size=32, key=key).digest()
            state = self._states.get(key)
            if state is None:
                state = self._read(key, chain, text)
            else:
                self._states.move_to_end(key)
            names += state.names
            chain = state.chain
        return Prompt(names, chain, "words")

    def of_ids(self, ids: Sequence[int]) -> Prompt:
        """The prompt of these token ids, each below 2^32 (else OverflowError)."""
        chain = TokenChain.of_ids()
        return Prompt(chain.add_ids(ids), chain, "ids")

    def _read(self, key: bytes, before: TokenChain, text: str) -> _State:
        chain = before.copy()
        names = chain.add_words(text.split())
        state = _State(names, chain, _TOKENS_A_STATE + chain.tokens - before.tokens)
        self._states[key] = state
        self._room -= state.cost
        while self._room < 0:
            _, oldest = self._states.popitem(last=False)
            self._room += oldest.cost
        return state
