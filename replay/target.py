"""Who answers at an address: reached, its model chosen, its engine recognised.

An address that cannot serve a run ends here, with one sentence that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from agentx.replay.endpoint import Endpoint, without_v1
from agentx.replay.errors import ReplayError
from agentx.replay.exchange import short
from agentx.replay.servers import Models, Server, read_models, recognise
from agentx.replay.transport import HttpTransport, Page, reason

REACH_S = 10.0
METRICS_S = 5.0
METRICS_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answers, and what it says of itself."""

    endpoint: Endpoint
    model: str
    server: Server
    context_limit: int | None
    """The model's longest context, where told."""
    speed: float | None
    """How many times faster than life its clock runs: only a simulated engine says so."""
    listed: bool | None
    """Whether its list of models names this one; None where it gives no list."""


async def find_target(transport: HttpTransport, endpoint: Endpoint, model: str | None) -> Target:
    """Reach a server, choose the model and recognise the engine.

    Raises:
        ReplayError: it cannot be reached, or the model must be named.
    """
    page = await _reach(transport, endpoint.models)
    if page.status == 404:
        other = without_v1(endpoint)
        elsewhere = await _reach(transport, other.models)
        if elsewhere.status == 200 and read_models(elsewhere.document()).names:
            endpoint, page = other, elsewhere
    document = page.document() if page.status == 200 else None
    models = read_models(document)
    chosen = model if model is not None else _only_model(endpoint, page, models)
    metrics = await read_page(transport, endpoint.root + "/metrics")
    return Target(
        endpoint=endpoint,
        model=chosen,
        server=recognise(models.owners, metrics or b""),
        context_limit=models.limits.get(chosen),
        speed=_speed(document, chosen),
        listed=chosen in models.names if models.names else None,
    )


async def read_page(transport: HttpTransport, url: str) -> bytes | None:
    """A page's bytes; None where there is none to be had in time."""
    try:
        page = await transport.get(url, timeout_s=METRICS_S, limit=METRICS_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return page.body if page.status == 200 else None


async def _reach(transport: HttpTransport, url: str) -> Page:
    try:
        return await transport.get(url, timeout_s=REACH_S)
    except TimeoutError:
        why = f"no answer within {REACH_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = reason(error)
    raise ReplayError(f"{url} cannot be reached ({why}): start the server, or correct the address")


def _only_model(endpoint: Endpoint, page: Page, models: Models) -> str:
    if len(models.names) == 1:
        return models.names[0]
    if models.names:
        some = ", ".join(short(name, 60) for name in models.names[:10])
        more = ", …" if len(models.names) > 10 else ""
        raise ReplayError(
            f"{endpoint.api} serves {len(models.names)} models: "
            f"name one with --model ({some}{more})"
        )
    if page.status in (401, 403):
        raise ReplayError(
            f"{endpoint.models} answers HTTP {page.status}: "
            "set the environment variable OPENAI_API_KEY to a key that it takes"
        )
    raise ReplayError(
        f"{endpoint.models} names no model (HTTP {page.status}, {short(page.content_type, 60)}): "
        "correct the address, or name the model with --model"
    )


def _speed(document: Any, model: str) -> float | None:
    for entry in document.get("data", ()) if isinstance(document, dict) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            engine = entry.get("agentx")
            speed = engine.get("speed") if isinstance(engine, dict) else None
            if isinstance(speed, int | float) and not isinstance(speed, bool) and speed > 0:
                return float(speed)
    return None
