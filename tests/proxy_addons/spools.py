"""Small spools of a test's own making."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from agentx.proxy_addons.parts import Answered, Chunks, Closed, Opened, Part, SegmentStart
from agentx.proxy_addons.segments import SegmentWriter
from agentx.proxy_addons.wire.exchange import Chunk

unhurried = settings(deadline=None, max_examples=80)
"""Other tests may keep the machine busy."""

NOW_MS = 1_796_000_000_000.0

latin = st.text(st.characters(max_codepoint=255), max_size=20)
numbers = st.integers(0, 2**40)
times = st.floats(0, 1e9, allow_nan=False)
headers = st.lists(st.tuples(latin, latin), max_size=4).map(tuple)
endings = st.sampled_from(["complete", "client_gone", "upstream_error", "proxy_stopped"])

any_part: st.SearchStrategy[Part] = st.one_of(
    st.builds(SegmentStart, latin, numbers, times),
    st.builds(Opened, numbers, latin, latin, latin, headers, times, st.binary(max_size=200)),
    st.builds(Answered, numbers, st.integers(100, 599), headers, times),
    st.builds(
        Chunks,
        numbers,
        st.lists(st.builds(Chunk, times, st.binary(max_size=50)), max_size=5).map(tuple),
    ),
    st.builds(Closed, numbers, endings, st.none() | times, numbers, numbers),
)


def opened(number: int, at_ms: float = 0.0, body: bytes = b"{}") -> Opened:
    return Opened(number, "up", "POST", "/v1/messages", (("a", "b"),), NOW_MS + at_ms, body)


def chunk(number: int, data: bytes, at_ms: float = 1.0) -> Chunks:
    return Chunks(number, (Chunk(at_ms, data),))


def closed(number: int) -> Closed:
    return Closed(number, "complete", 9.0, 2, 3)


def whole(number: int, at_ms: float = 0.0, answer: bytes = b"answer") -> list[Part]:
    return [
        opened(number, at_ms),
        Answered(number, 200, (("content-type", "text/event-stream"),), 0.5),
        chunk(number, answer),
        closed(number),
    ]


def write(folder: Path, said: list[Part], started_ms: float = NOW_MS) -> Path:
    """A segment with these parts, by a writer of its own; its path."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    writer = SegmentWriter(folder, lambda: started_ms)
    for part in said:
        assert writer.append(writer.encode(part)) is None
    writer.close()
    (path,) = set(folder.iterdir()) - before
    return path
