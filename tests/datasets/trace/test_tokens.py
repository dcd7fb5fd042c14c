"""Tokens: the published vocabulary, markers, and texts that its splitter cannot take."""

from __future__ import annotations

import importlib
import re
import types
from typing import Any

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from agentx.datasets.trace import tokens
from agentx.datasets.trace.media import Opaque
from agentx.datasets.trace.segments import ContextSegment
from agentx.datasets.trace.tokens import MARKERS, Tokenizer, o200k_base

openai_public: Any = importlib.import_module("tiktoken_ext.openai_public")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return o200k_base()


def test_the_vocabulary_is_tiktokens_own(tokenizer: Tokenizer) -> None:
    """Its definition, run with our bytes for a loader, differs in nothing."""
    given_hash: list[str] = []

    def load(url: str, expected_hash: str) -> Any:
        given_hash.append(expected_hash)
        return tokenizer._ranks

    definition = types.FunctionType(
        openai_public.o200k_base.__code__, {**vars(openai_public), "load_tiktoken_bpe": load}
    )()
    assert given_hash == [tokens._SHA256]
    assert definition["pat_str"] == tokens._WORDS
    assert definition["special_tokens"] == tokens._SPECIAL
    assert tokenizer.n_vocab == tiktoken.Encoding(**definition).n_vocab == 200_019


def test_special_tokens_written_out_are_plain_text(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("<|endoftext|>")) > 1
    assert tokenizer.encode("").tolist() == []


def test_each_kind_has_its_marker(tokenizer: Tokenizer) -> None:
    assert list(MARKERS.items()) == [
        ("tool_definition", 0),
        ("system", 1),
        ("user", 2),
        ("assistant", 3),
        ("thinking", 4),
        ("tool_call", 5),
        ("tool_result", 6),
        ("other", 7),
    ]
    hello = tokenizer.segment(ContextSegment("user", "hello world"))
    assert hello.tolist() == [200_021, *tokenizer.encode("hello world")]
    assert hello.dtype == np.uint32


def test_media_are_marked_as_other_and_lie_above_every_vocabulary(tokenizer: Tokenizer) -> None:
    found = tokenizer.segment(ContextSegment("other", "", Opaque(b"digest", 5)))
    assert len(found) == 6
    assert found[0] == 200_026
    assert (found[1:] >= 1 << 31).all()


def test_a_million_spaces_are_exact(tokenizer: Tokenizer) -> None:
    spaces = tokenizer.encode(" " * 1_000_000)
    assert tokenizer._encoding.decode(spaces.tolist()) == " " * 1_000_000
    # 128 spaces are one token, so that the count is known.
    assert len(spaces) == -(-1_000_000 // 128)
    words = tokenizer.encode("a" + "\t" * 1_000_000 + "b\n" + " " * 60_000 + "\nc")
    text = tokenizer._encoding.decode(words.tolist())
    assert text == "a" + "\t" * 1_000_000 + "b\n" + " " * 60_000 + "\nc"


SPACES = ["\t", " ", "\u00a0", "\u3000", "\x1c", "\n", "\r\n", "\v", "\x85"]
WORDS = ["a", ".", "1", "É", "'s", "/", "\u0301", "北", "_"]


@given(
    st.lists(
        st.tuples(st.sampled_from(SPACES + WORDS), st.integers(1, 12)), min_size=1, max_size=12
    )
)
@settings(max_examples=300, deadline=None)
def test_long_white_space_is_taken_out_without_a_trace(runs: list[tuple[str, int]]) -> None:
    """The same rule with a bound so low that everything meets it, against the splitter itself."""
    tokenizer = o200k_base()
    text = "".join(piece * count for piece, count in runs)
    pattern = re.compile(tokens._SPACE + "{3,}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_LONG_SPACES", pattern)
        split = np.concatenate([*tokenizer._pieces(text)])
    assert split.tolist() == tokenizer._encoding.encode_ordinary(text)
