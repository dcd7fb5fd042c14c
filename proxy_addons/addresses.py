"""Where the proxy listens and where it sends to, as given on the command line. Pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from agentx.proxy_addons.errors import CaptureError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Upstream:
    """A provider by the name that its exchanges carry."""

    name: str
    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """Without a path; it begins every path that the agents ask for."""
        default = {"http": 80, "https": 443}[self.scheme]
        port = "" if self.port == default else f":{self.port}"
        return f"{self.scheme}://{_bracketed(self.host)}{port}"


@dataclass(frozen=True, slots=True)
class Listen:
    """A loopback address; port 0 stands for a free one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """What agents are given as their base URL."""
        return f"http://{_bracketed(self.host)}:{self.port}"


def parse_upstream(text: str) -> Upstream:
    """NAME=URL. Raises CaptureError."""
    name, equals, url = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise CaptureError(
            f"--upstream {text} has no name; write NAME=URL, "
            "such as anthropic=https://api.anthropic.com"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise CaptureError(f"--upstream {text}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CaptureError(
            f"--upstream {text} is no URL of a server; write it as https://HOST or http://HOST:PORT"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise CaptureError(f"--upstream {name} may hold a host and a port only, nothing else")
    if parts.path not in ("", "/"):
        raise CaptureError(
            f"--upstream {text} has a path ({parts.path}); leave it out here, "
            "and put it into the base URL that the agent is given"
        )
    default = {"http": 80, "https": 443}[parts.scheme]
    return Upstream(name, parts.scheme, parts.hostname, default if port is None else port)


def parse_listen(text: str) -> Listen:
    """HOST:PORT on this machine's loopback. Raises CaptureError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise CaptureError(
            f"--listen {text} is no HOST:PORT; write it as 127.0.0.1:8080 (port 0: a free one)"
        )
    if not _is_loopback(host):
        raise CaptureError(
            f"--listen {text} can be reached from other machines, and there is no access control "
            "yet; listen on 127.0.0.1"
        )
    return Listen(host, int(port))


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
