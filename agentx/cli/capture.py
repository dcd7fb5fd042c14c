"""`agentx capture`: run the proxy and write a spool."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import click

from agentx.cli.errors import CommandError
from agentx.cli.output import json_option, log, print_json

_SHOW_EVERY_S = 10.0


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Loopback address to listen on; port 0 takes a free one, printed at start.",
)
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    required=True,
    metavar="NAME=URL",
    help="The provider: a name for it, and its scheme, host and port.",
)
@click.option(
    "--spool",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to write to: a new one, an empty one, or an earlier spool.",
)
@click.option(
    "--drain",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Longest wait for answers in flight when stopped.",
)
@json_option
def capture(
    listen: str, upstreams: tuple[str, ...], spool: Path, drain: float, as_json: bool
) -> None:
    """Pass agents' traffic on to a provider, and keep it in a spool.

    Give the agent the address printed at start as its base URL; paths pass as they come. Stop
    with Ctrl-C or SIGTERM: answers in flight are let finish, a second signal does not wait.

    \b
    agentx capture --upstream anthropic=https://api.anthropic.com --spool spool/
    ANTHROPIC_BASE_URL=http://127.0.0.1:8080 claude
    agentx build spool/ -o dataset/
    """
    from agentx.proxy_addons.addresses import Listen, parse_listen, parse_upstream

    if len(upstreams) > 1:
        raise CommandError(
            "give one --upstream; for another provider run a second 'agentx capture' "
            "on another port (it may write to the same spool)"
        )
    address = parse_listen(listen)
    upstream = parse_upstream(upstreams[0])
    try:
        from agentx.proxy_addons import launch
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mitmproxy":
            raise
        raise CommandError(
            "mitmproxy is not installed, and capture needs it: pip install 'agentx-replay[capture]'"
        ) from error

    spool = spool.absolute()
    where: list[Listen] = []

    def started(listening: Listen) -> None:
        where.append(listening)
        log(f"Listening on {listening.url}, passing everything on to {upstream.url}")
        log(
            f"Base URL for the agent: {listening.url} (ANTHROPIC_BASE_URL), "
            f"{listening.url}/v1 (OpenAI-compatible)"
        )
        log(
            f"The spool {spool} holds what is said, prompts and answers included; "
            "its files are readable by you only (mode 0600). Ctrl-C stops."
        )

    show = _Show()
    counts = launch.capture(
        launch.Settings(address, upstream, spool, drain),
        launch.Listeners(started=started, counted=show.counts, problem=show.problem),
    )
    show.last(counts)
    if as_json:
        print_json(
            {
                "listen": where[0].url if where else None,
                "upstream": {"name": upstream.name, "url": upstream.url},
                "spool": str(spool),
                **counts,
            }
        )
    # Python would search all that mitmproxy has made for cycles before it leaves: half a second of
    # a processor's time, and many seconds on a busy machine.
    gc.freeze()


class _Show:
    """Counters on stderr: now and then on a terminal, and losses as they happen anywhere."""

    def __init__(self) -> None:
        from rich.console import Console

        self._live = Console(stderr=True).is_terminal
        self._shown: dict[str, Any] = {}
        self._shown_at = time.monotonic()
        self._said: set[str] = set()

    def counts(self, counts: dict[str, Any]) -> None:
        for reason in counts["lost"].keys() - self._said:
            self._said.add(reason)
            log(f"Not recorded ({reason.replace('_', ' ')}); traffic goes on.")
        now = time.monotonic()
        if self._live and counts != self._shown and now - self._shown_at >= _SHOW_EVERY_S:
            self._shown, self._shown_at = counts, now
            self._print(counts)

    def last(self, counts: dict[str, Any]) -> None:
        self._print(counts)

    def problem(self, line: str) -> None:
        log(f"mitmproxy: {line}")

    @staticmethod
    def _print(counts: dict[str, Any]) -> None:
        from agentx.proxy_addons.counters import summary

        log(summary(counts))
