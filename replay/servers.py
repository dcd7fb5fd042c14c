"""What is particular about each serving engine, as a table: a new engine is a new row.

Sources: the engines' own `/metrics` and source, as each was seen running; traps (what a counter
includes, which series appear late) are noted beside the row that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Series(NamedTuple):
    """A metric's samples of one name, all label sets summed, or only those with one label."""

    name: str
    label: str | None = None
    value: str | None = None

    @property
    def key(self) -> str:
        """How the series is named in telemetry."""
        return self.name if self.label is None else f'{self.name}{{{self.label}="{self.value}"}}'


@dataclass(frozen=True, slots=True)
class Server:
    """One kind of serving engine."""

    kind: str
    """`openai` stands for every server that we know nothing of."""
    owners: tuple[str, ...] = ()
    """What its list of models says under `owned_by`."""
    prefix: str | None = None
    """How the names of its metrics begin."""
    forced: tuple[str, ...] = ()
    """Options by which it generates exactly as many tokens as asked."""
    hits: tuple[Series, ...] = ()
    """Counters of prompt tokens found in its own cache, summed."""
    queries: tuple[Series, ...] = ()
    """Counters of prompt tokens looked up, summed: the hits' denominator."""
    witness: Series | None = None
    """A counter that must have grown for hits of 0 to be a count and not a silence."""
    sums: tuple[str, ...] = ()
    """Other metrics to keep over time, summed over their label sets."""
    means: tuple[str, ...] = ()
    """Shares to keep over time, averaged over their label sets."""

    def names(self) -> frozenset[str]:
        """Every sample name that the row speaks of."""
        series = (*self.hits, *self.queries, *((self.witness,) if self.witness else ()))
        return frozenset((*(one.name for one in series), *self.sums, *self.means))


FORCED_BOTH = ("min_tokens", "ignore_eos")

_VLLM_HITS = (Series("vllm:prefix_cache_hits_total"),)
_VLLM_QUERIES = (Series("vllm:prefix_cache_queries_total"),)
_VLLM_SUMS = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:external_prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
)
_VLLM_MEANS = ("vllm:kv_cache_usage_perc",)

AGENTX = Server(
    kind="agentx",
    owners=("agentx",),
    forced=FORCED_BOTH,
    hits=_VLLM_HITS,
    queries=_VLLM_QUERIES,
    sums=_VLLM_SUMS,
    means=_VLLM_MEANS,
)
VLLM = Server(
    kind="vllm",
    owners=("vllm",),
    prefix="vllm:",
    forced=FORCED_BOTH,
    hits=_VLLM_HITS,
    queries=_VLLM_QUERIES,
    sums=_VLLM_SUMS,
    means=_VLLM_MEANS,
)
SGLANG = Server(
    kind="sglang",
    owners=("sglang",),
    prefix="sglang:",
    forced=FORCED_BOTH,
    # Its `cache_hit_rate` is the ratio of the last moment, not of the run. A source's series
    # appears at its first hit; `total` holds them all.
    hits=(Series("sglang:cached_tokens_total", "cache_source", "total"),),
    queries=(Series("sglang:prompt_tokens_total"),),
    sums=(
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:generation_tokens_total",
        "sglang:evicted_tokens_total",
    ),
    means=("sglang:token_usage",),
)
LLAMACPP = Server(
    kind="llamacpp",
    owners=("llamacpp",),
    prefix="llamacpp:",
    forced=("ignore_eos",),
    hits=(Series("llamacpp:prompt_tokens_cached_total"),),
    # `prompt_tokens_total` leaves out what was cached.
    queries=(
        Series("llamacpp:prompt_tokens_total"),
        Series("llamacpp:prompt_tokens_cached_total"),
    ),
    sums=(
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
        "llamacpp:tokens_predicted_total",
    ),
)
DYNAMO = Server(
    kind="dynamo",
    prefix="dynamo_",
    forced=FORCED_BOTH,
    # `tokenizer_cache_cached_tokens_total` is near this number and something else. With engines
    # that do not report cached tokens the sum stays 0, and then nothing was observed either.
    hits=(Series("dynamo_frontend_cached_tokens_sum"),),
    queries=(Series("dynamo_frontend_input_sequence_tokens_sum"),),
    witness=Series("dynamo_frontend_cached_tokens_count"),
    sums=(
        "dynamo_frontend_inflight_requests",
        "dynamo_frontend_queued_requests",
        "dynamo_frontend_output_sequence_tokens_sum",
    ),
)
OPENAI = Server(kind="openai")

SERVERS: Mapping[str, Server] = {
    server.kind: server for server in (AGENTX, VLLM, SGLANG, LLAMACPP, DYNAMO, OPENAI)
}


CONTEXT_LIMITS = (("max_model_len",), ("context_window",), ("meta", "n_ctx"))
"""Where a model's entry has its longest context: vLLM, SGLang and our engine; Dynamo; llama.cpp.

llama.cpp's `n_ctx_train` beside it is the model's, not what the server was started with.
"""


@dataclass(frozen=True, slots=True)
class Models:
    """What `/v1/models` says."""

    names: tuple[str, ...] = ()
    owners: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    """Context limit of a model, where told."""


def read_models(document: Any) -> Models:
    """Read a list of models; what is not understood is left out."""
    entries = document.get("data") if isinstance(document, dict) else None
    names: list[str] = []
    owners: set[str] = set()
    limits: dict[str, int] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(name := entry.get("id"), str):
            continue
        names.append(name)
        if isinstance(owner := entry.get("owned_by"), str):
            owners.add(owner.lower())
        if (limit := _context_limit(entry)) is not None:
            limits[name] = limit
    return Models(tuple(names), frozenset(owners), limits)


def _context_limit(entry: Mapping[str, Any]) -> int | None:
    """A model's longest context, wherever its server says it; 0 is how some say unknown."""
    for path in CONTEXT_LIMITS:
        value: Any = entry
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def recognise(owners: Iterable[str], metrics: bytes) -> Server:
    """Tell which engine answers, by its list of models and the names of its metrics.

    A router in front of an engine owns its models by another name but may pass its metrics on;
    the metrics of a front end that is known come first.
    """
    owned = set(owners)
    for server in SERVERS.values():
        if owned.intersection(server.owners):
            return server
    starts = {line.split(b":", 1)[0] for line in metrics.splitlines() if line[:1].isalpha()}
    for server in (DYNAMO, SGLANG, LLAMACPP, VLLM):
        assert server.prefix is not None
        prefix = server.prefix.encode()
        if any(start.startswith(prefix.rstrip(b":")) for start in starts):
            return server
    return OPENAI
