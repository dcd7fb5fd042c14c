"""The engine's counters under vLLM's names, in Prometheus's text format.

Latencies are engine seconds. With an endless cache `kv_cache_usage_perc` is 0 (a share of it), and
`cache_config_info` says `None` for the number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from agentx.engine.scheduler import Scheduler
from agentx.engine.tally import Histogram


class EngineCollector(Collector):
    """Reads a scheduler when it is scraped."""

    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self._scheduler = scheduler
        self._labels = {"model_name": model}

    def collect(self) -> Iterator[Metric]:
        """All metrics, as they are now."""
        scheduler = self._scheduler
        tally = scheduler.tally
        counter = self._counter
        yield counter("prefix_cache_queries", "Prompt tokens looked up", tally.prefix_queries)
        yield counter("prefix_cache_hits", "Prompt tokens found in the cache", tally.prefix_hits)
        yield counter("prompt_tokens", "Prompt tokens, cached ones included", tally.prompt_tokens)
        yield counter("generation_tokens", "Output tokens", tally.generated_tokens)
        yield counter("num_preemptions", "Requests put back in the queue", tally.preemptions)
        yield self._finished()
        gauge = self._gauge
        yield gauge("num_requests_running", "Requests in the batch", len(scheduler.running))
        yield gauge("num_requests_waiting", "Requests in the queue", len(scheduler.waiting))
        yield gauge("kv_cache_usage_perc", "Share of blocks in use, 0 to 1", self._usage())
        yield self._config()
        yield self._histogram("time_to_first_token_seconds", "Arrival to first token", tally.ttft)
        yield self._histogram("inter_token_latency_seconds", "Token to next token", tally.itl)
        yield self._histogram("e2e_request_latency_seconds", "Arrival to last token", tally.e2e)

    def _usage(self) -> float:
        cache = self._scheduler.cache
        return cache.referenced / cache.capacity if cache.capacity else 0.0

    def _counter(self, name: str, help_text: str, value: int) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", help_text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", help_text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _finished(self) -> Metric:
        labels = [*self._labels, "finished_reason"]
        family = CounterMetricFamily("vllm:request_success", "Requests that ended", labels=labels)
        for reason, count in self._scheduler.tally.finished.items():
            family.add_metric([*self._labels.values(), reason], count)
        return family

    def _config(self) -> Metric:
        cache = self._scheduler.cache
        labels = {
            **self._labels,
            "block_size": str(cache.block_size),
            "num_gpu_blocks": str(cache.capacity),
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "Cache", labels=list(labels))
        family.add_metric(list(labels.values()), 1)
        return family

    def _histogram(self, name: str, help_text: str, values: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", help_text, labels=list(self._labels))
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*values.bounds, float("inf")), values.counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), below))
        family.add_metric(list(self._labels.values()), buckets, values.total)
        return family


class MetricsPage:
    """Renders the metrics of one scheduler from a registry of its own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, scheduler: Scheduler, model: str) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(EngineCollector(scheduler, model))

    def render(self) -> bytes:
        """The page."""
        return generate_latest(self._registry)
