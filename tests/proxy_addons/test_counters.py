from __future__ import annotations

from agentx.proxy_addons.counters import Counters, summary


def test_every_request_is_in_one_place() -> None:
    counters = Counters()
    for _ in range(6):
        counters.began()
    counters.complete()
    counters.partial("client_gone")
    counters.partial("client_gone")
    counters.lost("disk_full")
    counters.sent(1_000_000)
    counters.received(500_000)
    counters.fault()
    assert counters.snapshot() == {
        "requests": 6,
        "in_flight": 2,
        "complete": 1,
        "partial": {"client_gone": 2},
        "lost": {"disk_full": 1},
        "faults": 1,
        "request_bytes": 1_000_000,
        "response_bytes": 500_000,
    }
    assert summary(counters.snapshot()) == (
        "6 requests, 1 complete, 2 in flight, 2 partial (2 client gone), 1 lost (1 disk full), "
        "1 faults in agentx; 1.5 MB"
    )


def test_a_summary_says_nothing_of_what_is_not() -> None:
    assert summary(Counters().snapshot()) == "0 requests, 0 complete; 0.0 MB"
