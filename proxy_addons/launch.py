"""Run mitmproxy in this process as a reverse proxy with our tap, until a signal says to stop."""

# mitmproxy types only a part of what it offers.
# mypy: allow-untyped-calls

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mitmproxy import addonmanager, master, options, tls
from mitmproxy.addons import disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.proxy import server

from agentx.proxy_addons.addresses import Listen, Upstream
from agentx.proxy_addons.counters import Counters
from agentx.proxy_addons.errors import CaptureError
from agentx.proxy_addons.identities import Pseudonyms
from agentx.proxy_addons.recorder import Recorder
from agentx.proxy_addons.segments import SegmentWriter, open_folder
from agentx.proxy_addons.tap import Tap
from agentx.proxy_addons.writer import ExchangeWriter

QUIET_FOR_S = 2 * 60 * 60
"""How long a connection may be silent: longer than any agent waits for an answer."""
STOP_WRITING_S = 10.0
"""How long the end waits for what is queued to be written; a disk may not answer at all."""
DISCONNECT_S = 1.0
"""How long the end waits for mitmproxy to close the connections that are left."""
SWITCH_EVERY_S = 0.001
"""How long the writer's thread may keep the proxy's waiting for the interpreter."""
_LOOK_EVERY_S = 0.05
_COUNT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What `agentx capture` was asked to do."""

    listen: Listen
    upstream: Upstream
    spool: Path
    drain_s: float
    """Longest wait for streams in flight when stopped."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told what, all in the proxy's thread."""

    started: Callable[[Listen], None]
    """Where the proxy listens, its real port told."""
    counted: Callable[[dict[str, Any]], None]
    """`Counters.snapshot`, once a second."""
    problem: Callable[[str], None]
    """A line about something that went wrong in mitmproxy."""


def capture(settings: Settings, tell: Listeners) -> dict[str, Any]:
    """Proxy and record until SIGTERM, SIGINT or SIGHUP; the counters at the end.

    A second signal ends the wait for streams in flight. Raises CaptureError, OSError.
    """
    if settings.upstream.scheme == "https":
        _check_authorities()
    key = open_folder(settings.spool)
    counters = Counters()
    segments = SegmentWriter(settings.spool, lambda: time.time() * 1000)
    recorder = Recorder(ExchangeWriter(segments, Pseudonyms(key), counters), counters)
    tap = Tap(settings.upstream.name, recorder, counters)
    recorder.start()
    sys.setswitchinterval(SWITCH_EVERY_S)
    try:
        asyncio.run(_Proxy(settings, tap, counters, tell).run())
    finally:
        if not recorder.stop(STOP_WRITING_S):
            for _ in range(counters.snapshot()["in_flight"]):
                counters.lost("not_written")
    return counters.snapshot() | {
        "spool_bytes": segments.bytes_written,
        "segments": segments.segments,
    }


def _authorities() -> str | None:
    """The file with the authorities that are trusted; None for those that come with mitmproxy."""
    return os.environ.get("SSL_CERT_FILE") or None


def _check_authorities() -> None:
    """mitmproxy would look at that file at the first call only, and answer every one with a 502."""
    path = _authorities()
    if path is None:
        return
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        unreadable = isinstance(error, ssl.SSLError) or error.strerror is None
        reason = "no certificate can be read from it" if unreadable else error.strerror
        raise CaptureError(
            f"the environment variable SSL_CERT_FILE names {path}, which is of no use ({reason}); "
            "let it name a PEM file with the authorities to trust, or unset it"
        ) from error


class _Proxy:
    def __init__(self, settings: Settings, tap: Tap, counters: Counters, tell: Listeners) -> None:
        self._settings = settings
        self._tap = tap
        self._counters = counters
        self._tell = tell
        self._proxyserver = proxyserver.Proxyserver()
        self._running = asyncio.Event()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def running(self) -> None:
        """mitmproxy's hook: it has begun to listen, or failed to."""
        self._running.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # Under nohup a terminal's end is to be ignored.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._signalled)
        proxy = self._master()
        serving = asyncio.create_task(proxy.run())
        log = _Log(self._tell.problem)
        try:
            await self._first(serving, self._running)
            self._tell.started(self._listening())
            logging.getLogger().addHandler(log)
            counting = asyncio.create_task(self._count())
            await self._first(serving, self._stop)
            # Takes down the listening socket; connections stay.
            proxy.options.update(server=False)
            await self._drain()
            counting.cancel()
            await self._disconnect()
        finally:
            proxy.shutdown()
            await serving
            logging.getLogger().removeHandler(log)

    def _signalled(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    def _master(self) -> master.Master:
        opts = options.Options()
        proxy = master.Master(opts)
        proxy.addons.add(
            self._proxyserver,
            next_layer.NextLayer(),
            _UpstreamTls(),
            disable_h2c.DisableH2C(),
            self._tap,
            self,
        )
        opts.update(
            mode=[f"reverse:{self._settings.upstream.url}"],
            listen_host=self._settings.listen.host,
            listen_port=self._settings.listen.port,
            # An upstream that is down then answers each request with a 502, not with silence.
            connection_strategy="lazy",
            # As other programs do: a company's own authorities.
            ssl_verify_upstream_trusted_ca=_authorities(),
        )
        if "tcp_timeout" in opts:
            opts.update(tcp_timeout=QUIET_FOR_S)
        else:
            server.TCP_TIMEOUT = QUIET_FOR_S
        return proxy

    @staticmethod
    async def _first(serving: asyncio.Task[None], event: asyncio.Event) -> None:
        """Wait for the event, or for mitmproxy to end by itself."""
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if serving.done():
            serving.result()
            raise CaptureError("mitmproxy ended by itself; start it again")

    def _listening(self) -> Listen:
        addresses = self._proxyserver.listen_addrs()
        if addresses:
            return replace(self._settings.listen, port=addresses[0][1])
        failures = (instance.last_exception for instance in self._proxyserver.servers)
        reason = next((failure for failure in failures if failure is not None), None)
        code = getattr(reason, "errno", None)
        raise CaptureError(
            f"cannot listen on {self._settings.listen.url}: "
            f"{os.strerror(code) if code else reason}; choose another port, or 0 for a free one"
        )

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_EVERY_S)
            # Nobody may be reading any more; the proxy goes on.
            with contextlib.suppress(OSError):
                self._tell.counted(self._counters.snapshot())

    async def _drain(self) -> None:
        """Wait until what is in flight has ended and has been sent to the client."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.drain_s
        while loop.time() < until and not self._hurry.is_set():
            idle = not self._tap.in_flight
            # An exchange ends for the tap just before its last bytes are sent.
            await asyncio.sleep(_LOOK_EVERY_S)
            if idle and not self._tap.in_flight and not self._unsent():
                return

    async def _disconnect(self) -> None:
        """Close what is still open, idle connections above all, and let mitmproxy clean up."""
        self._tap.done()
        for handler in list(self._proxyserver.connections.values()):
            io = handler.transports.get(handler.client)
            if io is not None and io.handler is not None:
                io.handler.cancel("capture stops")
        loop = asyncio.get_running_loop()
        until = loop.time() + DISCONNECT_S
        while self._proxyserver.connections and loop.time() < until:  # noqa: ASYNC110 - no event
            await asyncio.sleep(_LOOK_EVERY_S)

    def _unsent(self) -> bool:
        for handler in self._proxyserver.connections.values():
            io = handler.transports.get(handler.client)
            writer = None if io is None else io.writer
            if isinstance(writer, asyncio.StreamWriter):
                transport = writer.transport
                if not transport.is_closing() and transport.get_write_buffer_size():
                    return True
        return False


class _UpstreamTls:
    """mitmproxy's TLS towards the upstream only, so that no certificate authority is made in the
    user's home folder; agents speak plain HTTP to a reverse proxy."""

    def __init__(self) -> None:
        self._config = tlsconfig.TlsConfig()

    def load(self, loader: addonmanager.Loader) -> None:
        self._config.load(loader)

    def tls_start_server(self, data: tls.TlsData) -> None:
        self._config.tls_start_server(data)


class _Log(logging.Handler):
    """mitmproxy's warnings, one line each and cut, for a line may quote what it could not read."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._problem = problem

    def emit(self, record: logging.LogRecord) -> None:
        # This runs inside mitmproxy's own code, which must not fail for want of a reader.
        with contextlib.suppress(Exception):
            self._problem(record.getMessage().partition("\n")[0][:200])
