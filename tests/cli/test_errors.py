from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentx.cli.errors import LONGEST, CommandError, sentence_and_status
from agentx.datasets.errors import DatasetError


@given(st.text())
def test_a_sentence_is_one_line_that_no_terminal_obeys(text: str) -> None:
    found = sentence_and_status(DatasetError(text))
    assert found is not None
    sentence, status = found
    assert status == 2
    assert sentence.isprintable()
    assert sentence.endswith((".", "!", "?"))
    assert len(sentence) <= LONGEST + 10


@pytest.mark.parametrize(
    "error",
    [
        click.UsageError("No such option: --x"),
        CommandError("it is not so"),
        FileNotFoundError(2, "", "/no/such"),
    ],
)
def test_errors_of_use_and_of_the_system_are_sentences(error: Exception) -> None:
    found = sentence_and_status(error)
    assert found is not None
    assert found[1] == 2


def test_a_bug_is_no_sentence() -> None:
    assert sentence_and_status(KeyError("x")) is None
