"""`agentx engine`: the simulated server by itself."""

from __future__ import annotations

import click

from agentx.cli.output import json_option


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--kv-tokens",
    type=click.IntRange(min=16),
    help="Capacity of the prefix cache in tokens, rounded down to blocks of 16.  [default: no end]",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=1e6),
    default=1.0,
    show_default=True,
    help="Run the clock this many times faster than life.",
)
@click.option("--model", default="agentx-sim", show_default=True, help="Name of the model.")
@click.option(
    "--prefill-tokens-per-s",
    type=click.FloatRange(min=0, min_open=True, max=1e12),
    help="Prompt tokens computed a second, before the price of attention.  [default: 25000]",
)
@click.option(
    "--decode-ms",
    type=click.FloatRange(min=0, min_open=True, max=1e6),
    help="Time of a step before what its tokens add.  [default: 8]",
)
@click.option(
    "--until-stdin-closes",
    is_flag=True,
    help="Stop when standard input ends: then the engine does not outlive who started it.",
)
@json_option
def engine(
    host: str,
    port: int,
    kv_tokens: int | None,
    speed: float,
    model: str,
    prefill_tokens_per_s: float | None,
    decode_ms: float | None,
    until_stdin_closes: bool,
    as_json: bool,
) -> None:
    """Serve a simulated model with a prefix cache, OpenAI-compatible, no GPU needed.

    A word, split at white space, is a token. The answers are meaningless words; what is real is
    the cache, the batching and the timing. With --json the first line on stdout is a JSON object
    with the key `url`. Stop it with Ctrl-C or SIGTERM.

    \b
    agentx engine --port 8000 --kv-tokens 1000000
    curl http://127.0.0.1:8000/v1/models
    """
    import dataclasses

    import orjson

    from agentx.engine.server import TOKEN_RULE, EngineSettings
    from agentx.engine.serving import serve
    from agentx.engine.timing import Timing

    timing = Timing()
    if prefill_tokens_per_s is not None:
        timing = dataclasses.replace(timing, prefill_token_s=1 / prefill_tokens_per_s)
    if decode_ms is not None:
        timing = dataclasses.replace(timing, step_s=decode_ms / 1e3)
    settings = EngineSettings(model=model, kv_tokens=kv_tokens, speed=speed, timing=timing)

    def announce(url: str) -> None:
        if as_json:
            line = orjson.dumps({"url": url, **dataclasses.asdict(settings)}).decode()
        else:
            size = "no end" if kv_tokens is None else f"{settings.max_model_len} tokens"
            line = f"Simulated engine at {url}/v1, model {model}; cache: {size}; {TOKEN_RULE}."
        click.echo(line)

    serve(settings, host, port, announce=announce, until_stdin_closes=until_stdin_closes)
