"""Every command line in the docs is one that the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from agentx.cli import COMMANDS, cli
from tests.conftest import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINE = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*agentx\s+(?P<rest>.+)$")
INLINE = re.compile(r"`agentx ([^`]+)`")


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            found = LINE.match(line)
            if found:
                yield page.name, re.split(r"\s{2,}|\s#|\s[|>]\s", found["rest"])[0]
            for inline in INLINE.findall(line):
                yield page.name, inline


CASES = sorted(set(command_lines()))


def test_docs_show_commands() -> None:
    assert {rest.split()[0] for _, rest in CASES} >= set(COMMANDS)


@pytest.mark.parametrize(("page", "line"), CASES)
def test_command_line_in_docs_is_real(page: str, line: str) -> None:
    words = shlex.split(line.replace("…", "").replace("[", " ").replace("]", " "))
    if not words or not re.fullmatch(r"[a-z-]+", words[0]):
        return
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None, f"{page}: there is no command {words[0]}"
    known = {option for param in command.params for option in param.opts + param.secondary_opts}
    known |= {"--help", "-h"}
    if isinstance(command, click.Group):
        return
    for word in words[1:]:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0].rstrip(",.") in known, f"{page}: {line}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=name))
    assert f"agentx {name}" in text.split("Options:")[0].split("\n", 1)[1]


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
