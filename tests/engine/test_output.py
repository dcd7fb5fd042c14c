from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from agentx.engine.output import MEAN_TOKENS, WORDS, Output
from agentx.engine.prompts import PromptReader

SEEDS = st.binary(min_size=16, max_size=16)


@given(SEEDS, st.integers(0, 9000), st.integers(0, 500))
def test_words_depend_on_seed_and_place_alone(seed: bytes, start: int, length: int) -> None:
    piecewise, at_once = Output(seed), Output(seed)
    piecewise.indices(0, start // 2)
    assert (
        piecewise.indices(start, start + length)
        == (at_once.indices(0, start + length)[start : start + length])
    )
    assert len(piecewise.indices(start, start + length)) == length


@given(SEEDS, st.integers(1, 300))
def test_a_text_of_n_tokens_counts_as_n_words(seed: bytes, count: int) -> None:
    text = Output(seed).text(count)
    assert len(text.split()) == count
    assert text == " ".join(text.split())


def test_the_words_need_no_escape() -> None:
    assert all(word.isascii() and word.isalpha() for word in WORDS)
    assert len(set(WORDS)) == len(WORDS)


def test_natural_lengths() -> None:
    lengths = [Output(number.to_bytes(16, "big")).natural_tokens for number in range(5000)]
    assert min(lengths) >= 1
    # The mean of 5000 draws with a deviation of 200: within five standard errors.
    assert abs(sum(lengths) / len(lengths) - MEAN_TOKENS) < 5 * 200 / 5000**0.5
    assert lengths[0] == Output(bytes(16)).natural_tokens


@given(st.integers(1, 50), st.integers(1, 80))
def test_output_sent_back_as_a_message_has_the_names_it_was_cached_under(
    prompt_words: int, output_words: int
) -> None:
    reader = PromptReader()
    prompt = reader.of_texts(["word " * prompt_words])
    output = Output(prompt.chain.digest())
    again = reader.of_texts(["word " * prompt_words, output.text(output_words)])
    new = len(again.names) - len(prompt.names)
    assert again.names == [*prompt.names, *islice(output.block_names(prompt), new)]


def test_output_after_ids_counts_as_indices() -> None:
    reader = PromptReader()
    prompt = reader.of_ids([9] * 20)
    output = Output(prompt.chain.digest())
    again = reader.of_ids([*[9] * 20, *output.indices(0, 30)])
    assert again.names == [*prompt.names, *islice(output.block_names(prompt), 2)]
