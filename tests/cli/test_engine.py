"""`agentx engine`: what it says when it cannot start."""

from __future__ import annotations

import socket

import pytest

from agentx.cli import run


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "--help"]) == 0
    page = capsys.readouterr().out
    assert "agentx engine --port 8000" in page
    assert "A word, split at white space, is a token." in " ".join(page.split())


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["engine", "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"agentx: cannot listen on 127.0.0.1 port {port}: Address already in use; "
        "choose another port, or 0 for a free one.\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--speed", "0"], "--speed"),
        (["--speed", "nan"], "speed"),
        (["--speed", "inf"], "--speed"),
        (["--kv-tokens", "15"], "--kv-tokens"),
        (["--port", "65536"], "--port"),
        (["--decode-ms", "-1"], "--decode-ms"),
        (["--decode-ms", "nan"], "step_s"),
        (["--prefill-tokens-per-s", "0"], "--prefill-tokens-per-s"),
        (["--host", "203.0.113.7"], "203.0.113.7"),
        (["--host", ""], "--host"),
        (["--model", ""], "--model"),
    ],
)
def test_wrong_options_are_one_sentence(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["engine", "--port", "0", *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("agentx: ")
    assert said.err.count("\n") == 1
    assert words in said.err
