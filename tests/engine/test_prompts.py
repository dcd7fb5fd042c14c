from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentx.engine.prompts import PromptReader
from agentx.engine.tokens import TokenChain

TEXTS = st.lists(
    st.text(alphabet=["a", "b", " ", "\n", "\t", "\u00a0", "ß"], max_size=90), max_size=6
)


@given(st.lists(TEXTS, max_size=5), st.sampled_from([0, 300, 10**6]))
def test_what_is_remembered_changes_nothing(prompts: list[list[str]], remembered: int) -> None:
    reader = PromptReader(remembered)
    for texts in prompts:
        prompt = reader.of_texts(texts)
        words = [word for text in texts for word in text.split()]
        chain = TokenChain.of_words()
        assert prompt.names == chain.add_words(words)
        assert prompt.tokens == len(words)
        assert prompt.chain.digest() == chain.digest()
        assert prompt.vocabulary == "words"


def test_a_longer_conversation_repeats_the_names() -> None:
    reader = PromptReader()
    first = reader.of_texts(["a b " * 20, "c " * 30])
    second = reader.of_texts(["a b " * 20, "c " * 30, "d " * 30])
    assert (first.tokens, second.tokens) == (70, 100)
    assert second.names[: len(first.names)] == first.names
    # The lists are their holders' own: one that grows does not change the other, or the memory.
    second.names.append("more")
    assert reader.of_texts(["a b " * 20, "c " * 30]).names == first.names


def test_an_earlier_difference_changes_every_later_name() -> None:
    reader = PromptReader()
    first = reader.of_texts(["a " * 64])
    second = reader.of_texts(["b " + "a " * 63])
    assert not {*first.names} & {*second.names}


def test_where_messages_end_only_words_end() -> None:
    reader = PromptReader()
    assert (
        reader.of_texts(["a b", "c " * 20]).names == reader.of_texts(["a", "b " + "c " * 20]).names
    )
    assert reader.of_texts(["ab"]).tokens == 1
    assert reader.of_texts(["a", "b"]).tokens == 2


def test_the_memory_is_bounded_and_the_least_recently_used_goes() -> None:
    reader = PromptReader(remembered_tokens=3000)
    for number in range(50):
        reader.of_texts(["kept " * 100])
        reader.of_texts([f"{number} " * 100])
        assert len(reader._states) <= 3000 // 356
    assert reader.of_texts(["kept " * 100]).tokens == 100
    kept = reader._states[[*reader._states][-1]]
    assert kept.chain.tokens == 100
    assert len(reader._states) == 3000 // 356


def test_ids() -> None:
    prompt = PromptReader().of_ids([7] * 33)
    assert prompt.tokens == 33
    assert prompt.names == TokenChain.of_ids().add_ids([7] * 33)
    assert prompt.vocabulary == "ids"
