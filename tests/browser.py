"""A real Chromium for the tests that open a page: one that is here, else one that is fetched.

`make test` runs this file before pytest; it prints one line and always leaves with status 0,
because without a browser the tests that want one are skipped by name (and fail in CI). Tests call
`need` and `launch`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, Error, sync_playwright

COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

ARGUMENTS = (
    "--no-sandbox",  # a container's root has no other way
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

LAUNCH_SECONDS = 60
PLAYWRIGHT_SECONDS = 300
PACKAGES_SECONDS = 420

PACKAGE_MANAGERS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    (
        "apt-get",
        (
            ("apt-get", "-qq", "update"),
            (
                "apt-get",
                "-qq",
                "-o",
                "DPkg::Lock::Timeout=120",
                "install",
                "-y",
                "--no-install-recommends",
                "chromium",
            ),
        ),
    ),
    ("dnf", (("dnf", "-q", "-y", "install", "chromium"),)),
    ("apk", (("apk", "-q", "add", "chromium"),)),
    ("pacman", (("pacman", "-Sy", "--noconfirm", "--needed", "chromium"),)),
)
"""Program to look for, and what to run as root, in order."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser that opened a page when it was tried."""

    name: str
    executable: str | None
    """None: playwright's own."""


def find() -> Chromium | None:
    """The first browser of this machine that really opens a page."""
    candidates = [Chromium(path, path) for name in COMMANDS if (path := shutil.which(name))]
    candidates.append(Chromium("playwright's own Chromium", None))
    return next((candidate for candidate in candidates if _works(candidate)), None)


def need() -> Chromium:
    """The browser for a test, which is skipped by name where there is none (and fails in CI)."""
    from tests.conftest import skip_or_fail

    found = find()
    if found is None:
        skip_or_fail("no Chromium is here (make test fetches one)")
    assert found is not None
    return found


@contextmanager
def launch(chromium: Chromium) -> Iterator[Browser]:
    """A headless browser with a fresh profile, closed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable,
            args=list(ARGUMENTS),
            timeout=LAUNCH_SECONDS * 1000,
        )
        try:
            yield browser
        finally:
            browser.close()


def _works(chromium: Chromium) -> bool:
    """Whether it starts and renders; a distribution's stub or missing libraries do not."""
    try:
        with launch(chromium) as browser:
            page = browser.new_page()
            page.set_content("<p id='here'>here</p>", timeout=LAUNCH_SECONDS * 1000)
            return page.inner_text("#here") == "here"
    except Error:
        return False


def _run(command: Sequence[str], seconds: int) -> bool:
    """Run quietly, with nothing to ask; False if it is absent, fails or takes too long."""
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return finished.returncode == 0


def _as_root() -> tuple[str, ...] | None:
    """What to put before a command so that it runs as root; None where we may not."""
    if os.geteuid() == 0:
        return ()
    return ("sudo", "-n") if _run(("sudo", "-n", "true"), 10) else None


def _fetch_from_playwright() -> bool:
    return _run((sys.executable, "-m", "playwright", "install", "chromium"), PLAYWRIGHT_SECONDS)


def _fetch_from_system() -> bool:
    if shutil.which("brew"):
        return _run(("brew", "install", "--cask", "chromium"), PACKAGES_SECONDS)
    root = _as_root()
    if root is None:
        return False
    for program, commands in PACKAGE_MANAGERS:
        if shutil.which(program):
            return all(_run((*root, *command), PACKAGES_SECONDS) for command in commands)
    return False


def main() -> None:
    """Make sure that there is a browser, and say in one line which."""
    here = find()
    if here:
        print(f"browser for the tests: {here.name}")  # noqa: T201
        return
    print("browser for the tests: none here, fetching one", flush=True)  # noqa: T201
    for way, fetch in (
        ("playwright install", _fetch_from_playwright),
        ("the system's packages", _fetch_from_system),
    ):
        fetch()
        here = find()
        if here:
            print(f"browser for the tests: {here.name}, by {way}")  # noqa: T201
            return
    print("browser for the tests: none to be had; tests that need one are skipped by name")  # noqa: T201


if __name__ == "__main__":
    main()
