"""A run's requests as arrays, one place a request, in the order in which they were sent.

Times are seconds and milliseconds of the engine's clock (wall time × the run's time scale), so that
a chart and the aggregate speak of the same. What is unknown is NaN, in texts None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Texts: TypeAlias = Sequence[str | None]


_MOST = 1e15
"""No count and no time of a run is larger; what is, is damage or malice."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The requests of one run; every array and list has one place a request."""

    session: Texts
    agent: Texts
    kind: Texts
    error: Texts
    error_detail: Texts
    request: Floats
    lane: Floats
    sent_s: Floats
    """From the run's start."""
    end_s: Floats
    context_tokens: Floats
    """The trace's count of the prompt."""
    prompt_tokens: Floats
    """The server's count of the prompt."""
    cached_tokens: Floats
    """What the server said that it found in its cache."""
    theoretical_tokens: Floats
    """What an endless cache would have found, in the trace's tokens."""
    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats
    engine_ttft_ms: Floats
    """By the engine's own clock."""
    engine_tpot_ms: Floats
    engine_e2e_ms: Floats
    tpot_assumed: Bools

    def __len__(self) -> int:
        return len(self.request)

    @property
    def failed(self) -> Bools:
        """Which requests ended with an error of any class."""
        return np.array([error is not None for error in self.error], dtype=np.bool_)

    @property
    def answered(self) -> Bools:
        """Which requests were answered in full."""
        return ~self.failed

    @property
    def theoretical_rate(self) -> Floats:
        """Share of each prompt that an endless cache would have found."""
        return _share(self.theoretical_tokens, self.context_tokens)

    @property
    def reported_rate(self) -> Floats:
        """Share of each prompt that the server said it found."""
        return _share(self.cached_tokens, self.prompt_tokens)


def rows_of(table: pa.Table, time_scale: float = 1.0) -> Rows:
    """The arrays of a run's table; a column that is not there, or of another type, is unknown.

    `time_scale` is how many times faster than life the engine's clock ran.
    """
    order = np.argsort(_floats(table, "sent_ms"), kind="stable")  # NaN, never sent, comes last
    table = table.take(pa.array(order))

    def ms(name: str) -> Floats:
        return _floats(table, name) * time_scale

    return Rows(
        session=_texts(table, "session_id"),
        agent=_texts(table, "agent_id"),
        kind=_texts(table, "kind"),
        error=_texts(table, "error"),
        error_detail=_texts(table, "error_detail"),
        request=_floats(table, "request"),
        lane=_floats(table, "lane"),
        sent_s=ms("sent_ms") / 1000,
        end_s=ms("end_ms") / 1000,
        context_tokens=_floats(table, "context_tokens"),
        prompt_tokens=_floats(table, "prompt_tokens"),
        cached_tokens=_floats(table, "cached_tokens"),
        theoretical_tokens=_floats(table, "theoretical_tokens"),
        ttft_ms=ms("ttft_ms"),
        tpot_ms=ms("tpot_ms"),
        e2e_ms=ms("e2e_ms"),
        engine_ttft_ms=_floats(table, "engine_ttft_ms"),
        engine_tpot_ms=_floats(table, "engine_tpot_ms"),
        engine_e2e_ms=_floats(table, "engine_e2e_ms"),
        tpot_assumed=np.nan_to_num(_floats(table, "tpot_assumed")) > 0,
    )


def event_lists(table: pa.Table) -> Iterator[pa.Array]:
    """The times of output events of the answered requests, in batches of lists; ms."""
    if "event_ms" not in table.column_names or "error" not in table.column_names:
        return
    kind = table.schema.field("event_ms").type
    if not pa.types.is_list(kind) or not pa.types.is_floating(kind.value_type):
        return
    for batch in table.select(["event_ms", "error"]).to_batches(max_chunksize=5000):
        yield batch.filter(pc.is_null(batch.column("error"))).column("event_ms")


def _share(part: Floats, whole: Floats) -> Floats:
    shares: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return shares


def _floats(table: pa.Table, name: str) -> Floats:
    unknown = np.full(table.num_rows, np.nan)
    if name not in table.column_names:
        return unknown
    column = table.column(name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return unknown
    values = np.asarray(
        pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(), dtype=np.float64
    )
    return plausible(values)


def plausible(values: Floats) -> Floats:
    """Values with everything that no count and no time can be as NaN: negative, endless."""
    possible = (values >= 0) & (values <= _MOST)
    return np.where(possible, values, np.nan)


def _texts(table: pa.Table, name: str) -> Texts:
    if name not in table.column_names:
        return [None] * table.num_rows
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return [None] * table.num_rows
    texts: list[str | None] = column.to_pylist()
    return texts
