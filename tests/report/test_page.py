"""The page holds all that it shows, says the same for the same run, and lets nothing through."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import orjson
import pytest

from agentx.report.page import render
from agentx.report.view import RunView
from tests.report import synthetic


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts and of the rest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._in_script: dict[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._in_script = dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._in_script = None

    def handle_data(self, data: str) -> None:
        if self._in_script is not None:
            self.scripts.append((self._in_script, data))
        else:
            self.text += data

    def charts(self) -> dict[str, str]:
        return {
            str(attributes["id"]): data
            for attributes, data in self.scripts
            if attributes.get("type") == "application/json"
        }


def test_nothing_is_fetched_and_only_the_pages_own_scripts_run() -> None:
    page = render([synthetic.run().view()])
    elements = Elements(page)
    for tag, attributes in elements.tags:
        assert not {"src", "srcset", "action", "background", "poster"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in ("iframe", "object", "embed", "link", "base", "form")
        if "href" in attributes:
            assert str(attributes["href"]).startswith("#")
    policy = next(
        str(attributes["content"])
        for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert len(re.findall(r"'sha256-[^']+'", policy)) == 2
    executed = [data for attributes, data in elements.scripts if not attributes.get("type")]
    assert len(executed) == 2


def test_every_chart_has_its_data_its_words_and_its_name() -> None:
    page = render([synthetic.run().view(), synthetic.run(seed=2).view("second")])
    elements = Elements(page)
    charts = elements.charts()
    drawn = [attributes for _, attributes in elements.tags if "data-chart" in attributes]
    assert len(drawn) == len(charts) == 2 * 14 + 2
    for attributes in drawn:
        assert attributes["role"] == "img"
        assert str(attributes["aria-label"])
        figure = orjson.loads(charts[str(attributes["data-chart"])])
        assert figure["data"]
    ids = [attributes["id"] for _, attributes in elements.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_the_same_runs_give_the_same_page() -> None:
    assert render([synthetic.run().view()]) == render([synthetic.run().view()])


def hostile_run() -> RunView:
    made = synthetic.run()
    for number, text in enumerate(synthetic.HOSTILE):
        row = made.requests[number]
        row |= {"session_id": text, "agent_id": text, "kind": text, "model": text}
        failed = made.requests[number + 20]
        failed |= {"session_id": text}
        synthetic.fail(failed, text, text)
        made.head["configuration"][text] = text
        made.head["endpoint"]["model"] = text
        made.telemetry.append(
            {"t_ms": 1.0, "source": "server", "name": f"running {text}", "value": 1.0}
        )
    made.head["started"] = made.head["agentx_version"] = synthetic.HOSTILE[0]
    return made.view(synthetic.HOSTILE[0])


def test_texts_of_a_run_are_letters_wherever_they_stand() -> None:
    made = synthetic.run()
    synthetic.fail(made.requests[0], "timeout", "no byte in 600 s")
    clean, hostile = Elements(render([made.view()])), Elements(render([hostile_run()]))
    assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in clean.tags}
    assert len(hostile.scripts) == len(clean.scripts)
    for _, attributes in hostile.tags:
        assert not any(name.startswith("on") for name in attributes)
    for name, data in hostile.charts().items():
        assert "<" not in data, name
        assert "\u202e" not in data, name
        orjson.loads(data)
    assert "<img src=x onerror='window.hacked=1'>" in hostile.text
    assert "{{ 7 * 7 }}{% raw %}" in hostile.text
    assert "\u202e" not in hostile.text


def test_a_chart_shows_tags_as_letters() -> None:
    charts = Elements(render([hostile_run()])).charts()
    hovers = str(orjson.loads(charts["run-1-chart-lanes"])["data"])
    assert "&lt;img src=x" in hovers
    assert "<img" not in hovers


def test_what_holds_is_said_in_words() -> None:
    made = synthetic.run()
    made.complete = False
    made.head["scaled"] = 20.0
    synthetic.fail(made.requests[0], "timeout", "no byte in 600 s")
    text = Elements(render([made.view()])).text
    for words in ("Partial run", "Scaled", "1 of 120 requests failed", "no byte in 600 s"):
        assert words in text


def test_a_run_without_answers_is_a_page_that_says_so() -> None:
    made = synthetic.run(1, 3, 1)
    for row in made.requests:
        synthetic.fail(row, "connect", "refused")
    made.telemetry.clear()
    elements = Elements(render([made.view()]))
    assert "No request was answered" in elements.text
    assert "no telemetry" in elements.text
    assert list(elements.charts()) == ["run-1-chart-lanes"]


def test_a_large_run_stays_a_small_page() -> None:
    made = synthetic.run(200, 40, 32)
    small, large = len(render([synthetic.run().view()])), len(render([made.view()]))
    assert large - small < 1_000_000
    assert large < 10_000_000


def test_a_page_needs_a_run() -> None:
    with pytest.raises(ValueError, match="needs a run"):
        render([])
