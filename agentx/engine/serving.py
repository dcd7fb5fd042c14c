"""The engine as a process: a listening socket, signals, and the end of standard input."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable

import uvloop
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger as server_log

from agentx.engine.errors import EngineError
from agentx.engine.server import EngineServer, EngineSettings

_BACKLOG = 4096
_GRACE_S = 0.1
"""How long open requests may go on after a stop was asked for."""


def serve(
    settings: EngineSettings,
    host: str,
    port: int,
    *,
    announce: Callable[[str], None],
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT (or the end of stdin); `announce` gets the URL once it listens.

    Port 0 takes a free one. EngineError where the address cannot be had.
    """
    listener = _listen(host, port)
    with listener:
        uvloop.run(_serve(settings, listener, announce, until_stdin_closes))


async def _serve(
    settings: EngineSettings,
    listener: socket.socket,
    announce: Callable[[str], None],
    until_stdin_closes: bool,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server_log.addFilter(_is_our_fault)
    server = EngineServer(settings)
    runner = web.AppRunner(
        server.app,
        access_log=None,
        auto_decompress=False,
        handler_cancellation=True,
        shutdown_timeout=_GRACE_S,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()
        if until_stdin_closes:
            _call_at_end_of_stdin(loop, stop.set)
        announce(_url(listener))
        # A task that fails ends the process: a server whose engine stands still answers nobody.
        async with asyncio.TaskGroup() as tasks:
            engine = tasks.create_task(server.live.run())
            await stop.wait()
            engine.cancel()
    finally:
        await runner.cleanup()


def _is_our_fault(record: logging.LogRecord) -> bool:
    """False for bytes that are no HTTP and connections that broke: they are answered or gone."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


def _listen(host: str, port: int) -> socket.socket:
    if not host:
        # To the system, no address is every address.
        raise EngineError("the address to listen on is empty; give one with --host")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        advice = {
            errno.EADDRINUSE: "choose another port, or 0 for a free one",
            errno.EACCES: "choose a port from 1024 on",
        }.get(error.errno or 0, "choose another address with --host")
        reason = error.strerror or error
        raise EngineError(f"cannot listen on {host} port {port}: {reason}; {advice}") from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _call_at_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    """Call `stop` when standard input ends, whatever it is: a pipe, a file, a terminal, nothing.

    A thread waits for it, since not all of these can be polled. It reads the descriptor itself:
    a lock of `sys.stdin` held at exit would end the process with an error.
    """

    def wait() -> None:
        with contextlib.suppress(OSError):  # There is no standard input: it has ended already.
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # The server has stopped, the loop is closed.
            loop.call_soon_threadsafe(stop)

    threading.Thread(target=wait, daemon=True, name="stdin").start()
