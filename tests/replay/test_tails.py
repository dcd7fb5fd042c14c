from __future__ import annotations

from agentx.replay.tails import Part, common, fill, head

TAIL = (Part(7, 3), Part(9, 8))


def test_head() -> None:
    assert head(TAIL, 0) == ()
    assert head(TAIL, 2) == (Part(7, 2),)
    assert head(TAIL, 3) == (Part(7, 3),)
    assert head(TAIL, 5) == (Part(7, 3), Part(9, 5))
    assert head(TAIL, 20) == TAIL


def test_fill() -> None:
    assert fill(TAIL, 8, 5) == TAIL
    assert fill(TAIL, 10, 5) == (*TAIL, Part(5, 10))
    assert fill((), 4, 5) == (Part(5, 4),)
    assert fill((), 0, 5) == ()


def test_common() -> None:
    assert common(TAIL, TAIL) == 8
    assert common(TAIL, (Part(7, 3), Part(9, 5))) == 5
    assert common(TAIL, (Part(7, 8),)) == 3
    assert common(TAIL, (Part(7, 2), Part(9, 8))) == 2
    assert common(TAIL, (Part(9, 8),)) == 0
    assert common((Part(7, 4), Part(7, 8)), (Part(7, 6),)) == 6
    assert common(TAIL, ()) == 0
