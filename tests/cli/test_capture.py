"""`agentx capture`: what it refuses, and what it says."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from agentx.cli import run

UPSTREAM = ("--upstream", "a=http://127.0.0.1:9")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["capture", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capture", "--help"]) == 0
    assert "agentx capture --upstream anthropic=https://" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--spool", "s"), "--upstream"),
        (UPSTREAM, "--spool"),
        ((*UPSTREAM, *UPSTREAM, "--spool", "s"), "one --upstream"),
        (("--upstream", "http://x", "--spool", "s"), "NAME=URL"),
        ((*UPSTREAM, "--spool", "s", "--listen", "0.0.0.0:1"), "other machines"),
        ((*UPSTREAM, "--spool", "s", "--drain", "-1"), "--drain"),
    ],
)
def test_wrong_use(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    said = refused(capsys, *UPSTREAM, "--spool", str(tmp_path))
    assert "holds other files (notes.txt)" in said


def test_a_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file" in refused(capsys, *UPSTREAM, "--spool", str(tmp_path / "file" / "spool"))


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run(["capture", *UPSTREAM, "--spool", str(tmp_path), "--listen", address]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"agentx: cannot listen on http://{address}: Address already in use; "
        "choose another port, or 0 for a free one."
    )


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("missing.pem", "No such file or directory"),
        (".", "Is a directory"),
        ("empty.pem", "no certificate can be read"),
        ("damaged.pem", "no certificate can be read"),
    ],
)
def test_authorities_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    file: str,
    reason: str,
) -> None:
    (tmp_path / "empty.pem").touch()
    (tmp_path / "damaged.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nno base64\n-----END CERTIFICATE-----\n"
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / file))
    spool = tmp_path / "spool"
    said = refused(capsys, "--upstream", "a=https://127.0.0.1:9", "--spool", str(spool))
    assert f"SSL_CERT_FILE names {tmp_path / file}" in said
    assert reason in said
    assert not spool.exists()


def test_without_mitmproxy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "mitmproxy", None)
    for name in ("launch", "tap"):
        monkeypatch.delitem(sys.modules, f"agentx.proxy_addons.{name}", raising=False)
    monkeypatch.delattr("agentx.proxy_addons.launch", raising=False)
    said = refused(capsys, *UPSTREAM, "--spool", str(tmp_path / "spool"))
    assert "pip install 'agentx-replay[capture]'" in said
    assert not (tmp_path / "spool").exists()
