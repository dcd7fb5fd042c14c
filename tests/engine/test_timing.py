from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.engine.errors import EngineError
from agentx.engine.timing import Timing

TOKENS = st.integers(0, 10**6)
CHUNKS = st.lists(st.tuples(st.integers(1, 8192), TOKENS), max_size=4)


def test_the_formula() -> None:
    timing = Timing(
        step_s=1, prefill_token_s=0.1, prefill_attention_s=0.01, decode_sequence_s=0.5, kv_read_s=2
    )
    assert timing.step([], 0, 0) == 1
    assert timing.step([], 3, 7) == pytest.approx(1 + 1.5 + 14)
    assert timing.step([(10, 100)], 0, 0) == pytest.approx(1 + 1 + 10 * 105 * 0.01)


@given(CHUNKS, st.integers(0, 256), TOKENS)
def test_more_work_takes_longer(chunks: list[tuple[int, int]], decoding: int, context: int) -> None:
    timing = Timing()
    seconds = timing.step(chunks, decoding, context)
    assert seconds >= timing.step_s
    assert timing.step([*chunks, (1, 0)], decoding, context) > seconds
    assert timing.step(chunks, decoding + 1, context) > seconds
    assert timing.step(chunks, decoding, context + 1000) > seconds
    later = [(tokens, before + 1000) for tokens, before in chunks]
    assert timing.step(later, decoding, context) >= seconds


@given(st.integers(1, 4000), st.integers(1, 4000), TOKENS)
def test_a_prompt_in_two_chunks_costs_the_same_but_for_the_step(
    first: int, second: int, before: int
) -> None:
    timing = Timing()
    whole = timing.step([(first + second, before)], 0, 0)
    parts = timing.step([(first, before), (second, before + first)], 0, 0)
    assert parts == pytest.approx(whole)


@pytest.mark.parametrize("parameter", [field.name for field in dataclasses.fields(Timing)])
@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_times_that_are_none(parameter: str, value: float) -> None:
    with pytest.raises(EngineError, match=parameter):
        Timing(**{parameter: value})
