"""What a build holds on disk between its two passes: distinct segments, calls by session, and which
exchanges it has seen.

All grow with the input, so that neither is held in memory. The file holds tokens, which are as
good as the text: it lies in a private folder and goes with the build.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType

import numpy as np
import orjson

from agentx.datasets.errors import DatasetError
from agentx.datasets.recorded import (
    Recorded,
    SegmentFacts,
    hash_text,
    mentions,
    segment_key,
    wrapped,
)
from agentx.datasets.trace.segments import ContextSegment
from agentx.datasets.trace.tokens import Tokenizer, Tokens
from agentx.proxy_addons.wire.content import Usage

_KNOWN = 500_000
"""Segments whose numbers are held in memory; more are looked up on disk."""
_HELD_TOKENS = 16 << 20
"""Tokens held in memory, four bytes each."""
_PLAIN = [f.name for f in fields(Recorded) if f.name not in ("usage", "context", "answer")]

_TABLES = """
CREATE TABLE segments (number INTEGER PRIMARY KEY, key BLOB UNIQUE, facts BLOB, tokens BLOB);
CREATE TABLE calls (session TEXT, opened REAL, fields BLOB, context BLOB, answer BLOB);
CREATE TABLE exchanges (id TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class Scratch:
    """Tables in a file of their own; use it in a `with` block.

    Raises:
        DatasetError: the file cannot be written or read, as where the disk is full.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, key: bytes) -> None:
        self._folder = folder
        self._tokenizer = tokenizer
        self._key = key
        self._db = sqlite3.connect(folder / "scratch.sqlite", isolation_level=None)
        self._numbers: dict[bytes, int] = {}
        self._count = 0
        self._tokens: dict[int, Tokens] = {}
        self._held = 0
        self._facts: dict[int, SegmentFacts] = {}

    def __enter__(self) -> Scratch:
        # Nobody reads this file after a crash.
        pragmas = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;"
        try:
            self._db.executescript(pragmas + _TABLES)
        except sqlite3.Error as error:
            self._db.close()
            raise self._failure(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._db.close()
        if isinstance(error, sqlite3.Error):
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> DatasetError:
        return DatasetError(
            f"{self._folder.parent}: what the build keeps on disk meanwhile failed ({error}); "
            "free some space there and run it again"
        )

    def number(self, segment: ContextSegment) -> int:
        """A segment's number; one that is new is tokenised and kept."""
        key = segment_key(segment, self._key)
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= _KNOWN:
                # The oldest quarter; what is still in use comes back by its next look-up.
                for old in list(self._numbers)[: _KNOWN // 4]:
                    del self._numbers[old]
            number = self._numbers[key] = self._find(key) or self._add(key, segment)
        return number

    def tokens(self, number: int) -> Tokens:
        """A segment's tokens, its marker first."""
        tokens = self._tokens.get(number)
        if tokens is None:
            (data,) = self._one("SELECT tokens FROM segments WHERE number = ?", number)
            tokens = np.frombuffer(data, dtype=np.uint32)
            if self._held > _HELD_TOKENS:
                self._tokens.clear()
                self._held = 0
            self._tokens[number] = tokens
            self._held += len(tokens)
        return tokens

    def facts(self, number: int) -> SegmentFacts:
        """What is known of a segment."""
        facts = self._facts.get(number)
        if facts is None:
            (data,) = self._one("SELECT facts FROM segments WHERE number = ?", number)
            kind, tokens, opaque, name, text, found, inner = orjson.loads(data)
            if len(self._facts) >= _KNOWN:
                self._facts.clear()
            facts = self._facts[number] = SegmentFacts(
                kind, tokens, opaque, name, text, frozenset(found), frozenset(inner)
            )
        return facts

    def is_new(self, exchange_id: str) -> bool:
        """Whether an exchange was not asked for before."""
        found = self._db.execute("INSERT OR IGNORE INTO exchanges VALUES (?)", (exchange_id,))
        return found.rowcount == 1

    def add_call(self, session: str, call: Recorded) -> None:
        """Keep a call under the session that it belongs to."""
        rest = [getattr(call, name) for name in _PLAIN]
        self._db.execute(
            "INSERT INTO calls VALUES (?, ?, ?, ?, ?)",
            (
                session,
                call.opened_ms,
                orjson.dumps([rest, asdict(call.usage)]),
                call.context.tobytes(),
                call.answer.tobytes(),
            ),
        )

    def index_calls(self) -> None:
        """Call this once between adding and reading."""
        self._db.execute("CREATE INDEX by_session ON calls (session, opened)")

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Each session that has calls, and when its first one was sent."""
        yield from self._db.execute("SELECT session, min(opened) FROM calls GROUP BY session")

    def calls(self, sessions: Sequence[str]) -> list[Recorded]:
        """The calls of some sessions together, in order of sending."""
        found = [
            _recorded(*row)
            for session in sessions
            for row in self._db.execute(
                "SELECT fields, context, answer FROM calls WHERE session = ? "
                "ORDER BY opened, rowid",
                (session,),
            )
        ]
        return sorted(found, key=lambda call: call.opened_ms)

    def _find(self, key: bytes) -> int | None:
        row = self._db.execute("SELECT number FROM segments WHERE key = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def _add(self, key: bytes, segment: ContextSegment) -> int:
        tokens = self._tokenizer.segment(segment)
        facts = [
            segment.kind,
            len(tokens),
            0 if segment.media is None else segment.media.tokens,
            segment.tool_name,
            hash_text(segment.text, self._key),
            list(mentions(segment, self._key)),
            list(wrapped(segment, self._key)),
        ]
        self._count += 1
        self._db.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?)",
            (self._count, key, orjson.dumps(facts), tokens.tobytes()),
        )
        return self._count

    def _one(self, query: str, number: int) -> tuple[bytes]:
        row: tuple[bytes] = self._db.execute(query, (number,)).fetchone()
        return row


def _recorded(data: bytes, context: bytes, answer: bytes) -> Recorded:
    rest, usage = orjson.loads(data)
    values = dict(zip(_PLAIN, rest, strict=True))
    values["hints"] = tuple(values["hints"])
    for name in ("call_ids", "answer_ids", "unseen"):
        values[name] = tuple(map(tuple, values[name]))
    return Recorded(
        **values,
        usage=Usage(**usage),
        context=np.frombuffer(context, dtype=np.uint32),
        answer=np.frombuffer(answer, dtype=np.uint32),
    )
