"""A page, made by the command as a process of its own, opened in a real Chromium."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, Page

from tests import browser
from tests.report import synthetic

pytestmark = pytest.mark.browser

DRAWN = "html[data-charts=drawn]"
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.launch(browser.need()) as launched:
        yield launched


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that a page can show: failures, hostile texts, telemetry, a fast clock."""
    made = synthetic.run()
    made.head["scaled"] = 10.0
    for number, text in enumerate(synthetic.HOSTILE):
        made.requests[number]["session_id"] = text
        made.requests[number + 40]["session_id"] = text
        synthetic.fail(made.requests[number + 40], "error_event", text)
        made.head["configuration"][text] = text
    for row in made.requests:
        row["engine_ttft_ms"] = row["ttft_ms"]
    return made.write(tmp_path_factory.mktemp("runs") / "hostile")


@pytest.fixture(scope="module")
def page_file(folder: Path) -> Path:
    return report(folder.parent / "page.html", folder)


def report(page: Path, *runs: Path) -> Path:
    command = [sys.executable, "-P", "-m", "agentx", "report", *map(str, runs), "-o", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return page


@dataclass
class Opened:
    """A page that was opened, and what it did that it should not."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]


@contextmanager
def opened(chromium: Browser, file: Path, **options: Any) -> Iterator[Opened]:
    """Open a page from its file and wait until its charts are drawn."""
    context = chromium.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    try:
        found = Opened(context.new_page())
        url = file.as_uri()
        found.page.on("console", lambda line: found.faults.append(line.text))
        found.page.on("pageerror", lambda error: found.faults.append(str(error)))
        found.page.on("dialog", lambda dialog: found.faults.append(dialog.message))
        found.page.on(
            "request", lambda sent: None if sent.url == url else found.faults.append(sent.url)
        )
        found.page.goto(url, timeout=TIMEOUT_MS)
        found.page.wait_for_selector(DRAWN, state="attached")
        yield found
    finally:
        context.close()


@pytest.fixture(scope="module")
def shown(chromium: Browser, page_file: Path) -> Iterator[Opened]:
    """The page on a wide screen, opened once: what is asked of it does not change it."""
    with opened(chromium, page_file, viewport={"width": 1280, "height": 900}) as found:
        yield found


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_a_page_opens_from_its_file_and_asks_nobody(shown: Opened) -> None:
    page = shown.page
    charts = page.locator("[data-chart]")
    assert charts.count() == 14
    for chart in charts.all():
        box = chart.locator("svg.main-svg").first.bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert chart.locator(".cartesianlayer .trace").count() >= 1
    assert overflow(page) <= 0
    assert page.evaluate("window.hacked") is None
    assert page.screenshot(full_page=True).startswith(b"\x89PNG")
    assert shown.faults == []


def test_the_numbers_are_those_of_run_json(shown: Opened, folder: Path) -> None:
    aggregate = orjson.loads((folder / "run.json").read_bytes())["aggregate"]
    values = shown.page.eval_on_selector_all(
        "data[data-key]", "all => all.map(one => [one.dataset.key, Number(one.value)])"
    )
    found = dict(values)
    for key in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        for name in ("p50", "p90", "p99", "mean"):
            assert found[f"{key}.{name}"] == aggregate[key][name]
    for key in ("theoretical", "reported"):
        assert found[f"hit_rate.{key}"] == aggregate["hit_rate"][key]
    assert found["requests.ok"] == aggregate["requests"]["ok"] == 113
    assert found["client.send_lag_ms"] == aggregate["client"]["send_lag_ms"]
    assert "hit_rate.metrics" not in found
    cards = " ".join(shown.texts(".card"))
    assert "113 of 120" in cards
    assert f"{aggregate['hit_rate']['reported'] * 100:.1f} %" in cards


def test_hostile_texts_are_shown_as_they_are(shown: Opened) -> None:
    details = shown.texts("td.detail")
    assert "<img src=x onerror='window.hacked=1'>" in details
    assert "</script><script>window.hacked=1</script>" in details
    # What a chart shows under the pointer, too.
    lanes = shown.page.locator("[data-chart=run-1-chart-lanes]")
    lanes.evaluate(
        """(div, wanted) => {
            for (const [curveNumber, trace] of div.data.entries()) {
                const texts = trace.hovertext || [];
                const pointNumber = texts.findIndex((one) => one.includes(wanted));
                if (pointNumber >= 0) return Plotly.Fx.hover(div, [{ curveNumber, pointNumber }]);
            }
        }""",
        "&lt;a href=",
    )
    hover = lanes.locator(".hovertext")
    hover.wait_for()
    assert "<a href='javascript:" in " ".join(hover.all_text_contents())
    assert shown.page.locator("svg a").count() == 0
    assert shown.page.evaluate("window.hacked") is None
    assert shown.faults == []


def test_headings_tables_and_charts_have_their_names(shown: Opened) -> None:
    page = shown.page
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("table:not(:has(thead th[scope=col]))").count() == 0
    assert page.locator("[role=img]:not([aria-label])").count() == 0
    assert page.locator("figure:not(:has(figcaption))").count() == 0


def test_dark_light_and_paper_have_their_own_colours(shown: Opened) -> None:
    page = shown.page
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('[data-chart] .xtick text').style.fill"
    differs, equals = f"old => {ink} !== old", f"old => {ink} === old"
    light_ground, light_ink = page.evaluate(ground), page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(differs, arg=light_ink)
    assert page.evaluate(ground) != light_ground
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(equals, arg=light_ink)
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="light")
    page.wait_for_function(equals, arg=light_ink)
    assert page.evaluate(ground) == light_ground
    assert shown.faults == []


RUN_TOGETHER = """
    all => all.flatMap(axis => {
        const boxes = [...axis.querySelectorAll('text')].map(text => text.getBoundingClientRect());
        return boxes.slice(1).filter((box, n) => {
            const before = boxes[n];
            return box.left < before.right + 2 && before.left < box.right + 2
                && box.top < before.bottom && before.top < box.bottom;
        });
    }).length
"""
"""How many numbers of axes touch the one before."""

CUT = """
    all => all.filter(text => {
        const inner = text.getBoundingClientRect();
        const outer = text.closest('svg').getBoundingClientRect();
        return inner.left < outer.left || inner.right > outer.right
            || inner.top < outer.top || inner.bottom > outer.bottom;
    }).map(text => text.textContent)
"""
"""Titles of axes that do not fit in their chart."""


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_axes_have_room_for_their_numbers_and_titles(
    chromium: Browser, page_file: Path, width: int
) -> None:
    with opened(chromium, page_file, viewport={"width": width, "height": 900}) as found:
        axes = ".xaxislayer-above, .yaxislayer-above"
        assert found.page.eval_on_selector_all(axes, RUN_TOGETHER) == 0
        assert found.page.eval_on_selector_all(".xtitle, .ytitle", CUT) == []
        numbers = found.page.eval_on_selector_all(
            "[data-chart]",
            """all => all.filter(div => div.layout.xaxis.type === 'log')
                .map(div => div.querySelectorAll('.xaxislayer-above text').length)""",
        )
        assert len(numbers) == 5
        assert min(numbers) >= 1
        assert found.faults == []


def test_it_fits_a_phone(chromium: Browser, page_file: Path) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    with opened(chromium, page_file, **phone) as found:
        assert overflow(found.page) <= 0
        for box in found.page.locator("[data-chart] svg.main-svg").all():
            place = box.bounding_box()
            assert place is not None
            assert place["width"] <= 390
        assert found.faults == []


def test_several_runs_are_compared_on_one_page(chromium: Browser, tmp_path: Path) -> None:
    runs = []
    for sessions in (1, 2):
        made = synthetic.run(lanes=sessions)
        made.head["configuration"]["sessions"] = sessions
        runs.append(made.write(tmp_path / f"sessions-{sessions}"))
    with opened(chromium, report(tmp_path / "page.html", *runs)) as found:
        rows = found.texts("#runs tbody tr")
        assert [row.split()[:3] for row in rows] == [
            ["sessions-1", "sessions", "1"],
            ["sessions-2", "sessions", "2"],
        ]
        assert found.page.locator("[data-chart] svg.main-svg").count() >= 2 * 14
        assert found.faults == []


def test_a_run_that_nobody_answered_says_so(chromium: Browser, tmp_path: Path) -> None:
    made = synthetic.run(2, 4, 2)
    for row in made.requests:
        synthetic.fail(row, "connect", "connection refused")
    folder = made.write(tmp_path / "refused")
    with opened(chromium, report(tmp_path / "page.html", folder)) as found:
        assert "No request was answered" in found.page.inner_text("main")
        assert found.page.locator("data[data-key='ttft_ms.p50']").count() == 0
        assert found.faults == []
