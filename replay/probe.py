"""Short requests before a run that show how a server takes, streams and counts.

What would make the run worthless ends it here, with one sentence that names the address; what is
merely unknown stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from agentx.replay.counting import Counting, fit
from agentx.replay.errors import ReplayError
from agentx.replay.exchange import Exchange, short
from agentx.replay.requests import Form
from agentx.replay.servers import FORCED_BOTH
from agentx.replay.target import Target
from agentx.replay.transport import HttpTransport
from agentx.replay.words import probe_words

LENGTH_TOKENS = 23
"""Asked for where one word would do: a server that gives as many keeps lengths.

No number that a server might have as a limit or a default.
"""

PROBE_WORDS = (64, 576)
PROBE_MESSAGES = (2, 6)


@dataclass(frozen=True, slots=True)
class Probe:
    """What the probes found."""

    form: Form
    exact_length: bool | None
    """It generated as many tokens as were asked for, where fewer would have done; None where it
    does not count them."""
    counting: Counting | None
    """None where it reports no usage."""
    cached_reported: bool
    """Whether it reported cached tokens, be it 0."""
    samples: tuple[Mapping[str, int | None], ...]
    """Words, messages and prompt tokens of each counting probe."""


def assumed_form(target: Target) -> Form:
    """How to ask a server that was not probed: by what is known of its kind."""
    return Form(target.model, forced=target.server.forced)


async def probe(transport: HttpTransport, target: Target, seed: int) -> Probe:
    """Send short requests that show how the server takes, streams and counts.

    Raises:
        ReplayError: it refuses them, or does not stream.
    """
    form, exchange = await _accepted_form(transport, target)
    got = exchange.meter.output_tokens
    exact = None if got is None else got == LENGTH_TOKENS
    samples: list[dict[str, int | None]] = []
    cached = exchange.meter.cached_tokens is not None
    for words in PROBE_WORDS:
        for messages in PROBE_MESSAGES:
            body = form.body([_probe_messages(words, messages, seed + len(samples))], 1)
            exchange = Exchange()
            await transport.send(body, exchange)
            if exchange.error not in (None, "empty"):
                raise _refused(target, exchange)
            cached = cached or exchange.meter.cached_tokens is not None
            samples.append(
                {
                    "words": words,
                    "messages": messages,
                    "prompt_tokens": exchange.meter.prompt_tokens,
                }
            )
    counting = fit(samples)
    if counting is not None and not counting.plausible:
        raise ReplayError(
            f"{target.endpoint.chat} counts {samples[0]['prompt_tokens']} prompt tokens for "
            f"{PROBE_WORDS[0]} words and {samples[-1]['prompt_tokens']} for {PROBE_WORDS[1]}: "
            "its counts do not follow the prompt; --no-preflight takes each word for one token"
        )
    return Probe(form, exact, counting, cached, tuple(samples))


async def _accepted_form(transport: HttpTransport, target: Target) -> tuple[Form, Exchange]:
    """The most that the server takes: forced length, else a plain limit, with usage if it can."""
    question = [
        {"role": "system", "content": "You answer with a single word."},
        {"role": "user", "content": "Answer with the word yes."},
    ]
    messages = [orjson.dumps(question)]
    forms = [
        Form(target.model, forced=FORCED_BOTH),
        Form(target.model, forced=("ignore_eos",)),
        Form(target.model),
        Form(target.model, length_field="max_completion_tokens"),
        Form(target.model, usage=False),
    ]
    refusal: Exchange | None = None
    for form in forms:
        exchange = Exchange()
        await transport.send(form.body(messages, LENGTH_TOKENS), exchange)
        if exchange.error is None:
            return form, exchange
        refusal = exchange
        if exchange.status not in (400, 422):
            break
    assert refusal is not None
    raise _refused(target, refusal)


def _refused(target: Target, exchange: Exchange) -> ReplayError:
    advice = {
        401: "set the environment variable OPENAI_API_KEY to a key that it takes",
        403: "set the environment variable OPENAI_API_KEY to a key that it takes",
        404: "check the address and --model",
        429: "wait, or ask for a higher limit",
    }.get(exchange.status or 0, "--no-preflight runs all the same")
    return ReplayError(
        f"{target.endpoint.chat} did not answer a short probe for model {short(target.model, 60)} "
        f"({exchange.error}: {exchange.detail}): {advice}"
    )


def _probe_messages(words: int, messages: int, seed: int) -> bytes:
    """So many words, dealt evenly to a system message and alternating turns."""
    chosen = probe_words(words, seed)
    share = words // messages
    roles = ["system", *(("user", "assistant")[i % 2] for i in range(messages - 1))]
    starts = [i * share for i in range(messages)]
    ends = [*starts[1:], words]
    return orjson.dumps(
        [
            {"role": role, "content": " ".join(chosen[start:end])}
            for role, start, end in zip(roles, starts, ends, strict=True)
        ]
    )
