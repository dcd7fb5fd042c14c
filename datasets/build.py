"""From spools to a data set: calls are read once, put on disk without text, and built by session.

The first pass reads the spools in order of time and keeps, of each call, the numbers of its
segments; text is tokenised where it is new and then let go. The second takes the sessions in a
random order, so that neither row order nor block integers tell when one took place.
"""

from __future__ import annotations

import heapq
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet.info import DatasetInfo, Dropped
from agentx.datasets.parquet.writer import DatasetWriter, refuse_out
from agentx.datasets.prefixes import Prefixes
from agentx.datasets.private import PrivateFolder
from agentx.datasets.recorded import (
    Recorded,
    call_id_hashes,
    hash_text,
    hints,
    unseen_hashes,
)
from agentx.datasets.rows import session_rows
from agentx.datasets.scratch import Scratch
from agentx.datasets.sessions import SessionFinder, place
from agentx.datasets.trace.blocks import BLOCK_SIZE
from agentx.datasets.trace.model import Session
from agentx.datasets.trace.segments import segments
from agentx.datasets.trace.tokens import o200k_base
from agentx.proxy_addons.spool import SpoolReader
from agentx.proxy_addons.wire.calls import ModelCall, read_call
from agentx.proxy_addons.wire.exchange import Exchange

Progress = Callable[[str, int], None]
"""Told what is done and how much of it so far."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made."""

    info: DatasetInfo
    exchanges: int
    body_bytes: int
    """Of the requests and answers, as on the wire."""
    private: Path


def build(
    spools: Sequence[Path],
    out: Path,
    *,
    key_file: Path | None = None,
    overwrite: bool = False,
    progress: Progress = lambda what, done: None,
) -> Built:
    """Build one data set from spools, at level `shapes`.

    Raises:
        CaptureError: a spool cannot be read.
        DatasetError: `out` is in the way, a key is none, or there is no call of a model.
        OSError: the disk is full or not writable.
    """
    refuse_out(out, overwrite)
    readers = [SpoolReader(path) for path in spools]
    with (
        PrivateFolder(out) as private,
        private.scratch() as folder,
        Scratch(folder, o200k_base(), key := private.key(key_file)) as scratch,
    ):
        reading = _Reading(scratch, key)
        for exchange in heapq.merge(
            *(reader.exchanges() for reader in readers), key=attrgetter("opened_ms")
        ):
            reading.take(exchange)
            progress("exchanges", reading.exchanges)
        reading.finish()
        if not reading.calls:
            raise _nothing(spools, reading.exchanges, reading.dropped | _cuts(readers))
        info = DatasetInfo(
            block_size=BLOCK_SIZE,
            hash_scope="dataset",
            tokenizer=o200k_base().name,
            provenance={"format": "capture"},
            dropped=reading.dropped | _cuts(readers),
        )
        with DatasetWriter(out, info, overwrite=overwrite) as writer:
            maps = []
            for session, real in _sessions(scratch, reading.finder, key):
                writer.add(session)
                maps.append(real)
                progress("sessions", len(maps))
        private.write_map(maps)
        return Built(writer.info, reading.exchanges, reading.body_bytes, private.path)


class _Reading:
    """The first pass."""

    def __init__(self, scratch: Scratch, key: bytes) -> None:
        self._scratch = scratch
        self._key = key
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._held: Exchange | None = None
        self.finder = SessionFinder(scratch.facts)
        self.exchanges = 0
        self.calls = 0
        self.body_bytes = 0

    @property
    def dropped(self) -> dict[str, Dropped]:
        """What made no row, or not a whole one, by reason."""
        return {
            reason: Dropped(count, what) for (reason, what), count in sorted(self._dropped.items())
        }

    def take(self, exchange: Exchange) -> None:
        """Take the next exchange. Of copies that come one after another, as those of two spools
        do, the fullest counts; else the first."""
        self.exchanges += 1
        held, self._held = self._held, exchange
        if held is None:
            return
        if held.exchange_id == exchange.exchange_id:
            self._held = max(held, exchange, key=_fullness)
            self._count("duplicate exchange", "exchanges")
        else:
            self._read(held)

    def finish(self) -> None:
        """All exchanges were given."""
        if self._held is not None:
            self._read(self._held)
            self._held = None

    def _read(self, exchange: Exchange) -> None:
        """Read an exchange and keep what the second pass needs of it."""
        if not self._scratch.is_new(exchange.exchange_id):
            self._count("duplicate exchange", "exchanges")
            return
        self.body_bytes += len(exchange.request_body) + _answer_bytes(exchange)
        call = read_call(exchange)
        if isinstance(call, str):
            self._count(call, "exchanges")
            return
        if call.response_problem is not None:
            self._count(f"answer {call.response_problem}", "answers")
        recorded = record(call, self._scratch, self._key)
        self._scratch.add_call(self.finder.session_of(recorded), recorded)
        self.calls += 1

    def _count(self, reason: str, what: str) -> None:
        self._dropped[reason.replace(" ", "_"), what] += 1


def _answer_bytes(exchange: Exchange) -> int:
    return sum(len(chunk.data) for chunk in exchange.chunks)


def _fullness(exchange: Exchange) -> tuple[bool, int]:
    """How much of an exchange a copy has: one of an unfinished spool has not all."""
    return exchange.ended != "proxy_stopped", _answer_bytes(exchange)


_IN_WORDS = {
    "no_model_call": "calls of something else",
    "unreadable_request": "requests that could not be kept or read",
    "duplicate_exchange": "copies",
    "spool_cut_off": "files of the spool cut off",
    "spool_beginning_lost": "frames of exchanges whose beginning is lost",
}


def _nothing(
    spools: Sequence[Path], exchanges: int, dropped: Mapping[str, Dropped]
) -> DatasetError:
    """Why there is nothing to build."""
    found = ", ".join(f"{what.count} {_IN_WORDS[reason]}" for reason, what in dropped.items())
    lost = dropped.keys() - {"no_model_call", "duplicate_exchange"}
    advice = (
        "capture the traffic again, and look at what 'agentx capture' counts as lost and partial"
        if lost
        else "check that the agent's traffic went through the proxy"
    )
    return DatasetError(
        f"{', '.join(map(str, spools))}: no call of a model among {exchanges} exchanges"
        f"{f' ({found})' if found else ''}; {advice}"
    )


def record(call: ModelCall, scratch: Scratch, key: bytes) -> Recorded:
    """A call without its text; segments that are new go to the scratch file."""
    context = list(segments(call.request.blocks))
    answer = list(segments(call.response.blocks))
    identity = call.identity
    own = identity.agent or identity.session
    return Recorded(
        opened_ms=call.opened_ms,
        first_output_ms=call.first_output_ms,
        end_ms=call.end_ms,
        session=identity.session,
        agent=identity.agent,
        parent_session=identity.parent_session,
        own_id=None if own is None else hash_text(own, key),
        model=call.request.model or call.response.model,
        status=call.status,
        streamed=call.streamed,
        stop_reason=call.response.stop_reason,
        error=call.response.error,
        usage=call.response.usage,
        count_only=call.request.count_only,
        max_output=call.request.max_output,
        hints=hints(call.request, context),
        call_ids=call_id_hashes(context, key),
        answer_ids=call_id_hashes(answer, key),
        unseen=unseen_hashes(context, key),
        context=np.array([scratch.number(s) for s in context], dtype=np.uint32),
        answer=np.array([scratch.number(s) for s in answer], dtype=np.uint32),
    )


def _cuts(readers: Sequence[SpoolReader]) -> dict[str, Dropped]:
    cuts = sum(len(reader.cuts) for reader in readers)
    orphans = sum(reader.orphans for reader in readers)
    found = {
        "spool_cut_off": Dropped(cuts, "files"),
        "spool_beginning_lost": Dropped(orphans, "frames"),
    }
    return {reason: what for reason, what in found.items() if what.count}


def _sessions(
    scratch: Scratch, finder: SessionFinder, key: bytes
) -> Iterator[tuple[Session, dict[str, Any]]]:
    """The second pass: sessions in a random order, each with its real ids."""
    scratch.index_calls()
    members: dict[str, list[str]] = {}
    start_ms = float("inf")
    for session, opened_ms in scratch.sessions():
        members.setdefault(finder.root_of(session), []).append(session)
        start_ms = min(start_ms, opened_ms)
    roots = list(members)
    secrets.SystemRandom().shuffle(roots)
    prefixes = Prefixes(scratch.tokens, lambda number: scratch.facts(number).tokens, key)
    for number, root in enumerate(roots, start=1):
        placed = place(scratch.calls(members[root]), root, scratch.facts)
        name = f"s{number}"
        rows, agents = session_rows(name, placed, scratch.facts, prefixes, start_ms)
        yield rows, {"session_id": name, "session": root, "agents": agents}
