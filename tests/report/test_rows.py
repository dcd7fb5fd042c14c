"""A table's columns as arrays: ordered, scaled, unknown where they cannot be read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from agentx.report.rows import event_lists, rows_of


def test_rows_stand_in_the_order_of_their_sends() -> None:
    rows = rows_of(pa.table({"sent_ms": [30.0, 10.0, None, 20.0], "request": [3, 1, 4, 2]}))
    assert rows.request.tolist() == [1, 2, 3, 4]


def test_wall_times_become_engine_times_and_the_engines_own_stay() -> None:
    table = pa.table({"sent_ms": [500.0], "ttft_ms": [3.0], "engine_ttft_ms": [28.0]})
    rows = rows_of(table, time_scale=10)
    assert rows.sent_s.tolist() == [5.0]
    assert rows.ttft_ms.tolist() == [30.0]
    assert rows.engine_ttft_ms.tolist() == [28.0]


def test_a_column_that_is_absent_or_of_another_type_is_unknown() -> None:
    rows = rows_of(
        pa.table({"sent_ms": [1.0], "ttft_ms": ["fast"], "session_id": [7], "lane": [[1]]})
    )
    assert len(rows) == 1
    assert np.isnan([rows.ttft_ms[0], rows.lane[0], rows.cached_tokens[0]]).all()
    assert rows.session == [None]


def test_what_is_no_number_is_unknown() -> None:
    rows = rows_of(pa.table({"sent_ms": [1.0, 2.0], "ttft_ms": [float("inf"), float("nan")]}))
    assert np.isnan(rows.ttft_ms).all()


def test_rates_need_both_counts() -> None:
    rows = rows_of(
        pa.table(
            {
                "sent_ms": [1.0, 2.0, 3.0, 4.0],
                "prompt_tokens": [100, 100, None, 0],
                "cached_tokens": [25, None, 10, 0],
            }
        )
    )
    assert rows.reported_rate[0] == 0.25
    assert np.isnan(rows.reported_rate[1:]).all()


def test_texts_may_be_dictionary_encoded() -> None:
    column = pa.array(["a", None, "a"]).dictionary_encode()
    assert rows_of(pa.table({"sent_ms": [1.0, 2.0, 3.0], "error": column})).error == [
        "a",
        None,
        "a",
    ]


def test_only_answered_requests_have_event_lists() -> None:
    table = pa.table({"event_ms": [[1.0, 2.0], [5.0], []], "error": [None, "broken", None]})
    assert [batch.to_pylist() for batch in event_lists(table)] == [[[1.0, 2.0], []]]


def test_event_lists_of_another_type_are_none() -> None:
    assert list(event_lists(pa.table({"event_ms": ["1"], "error": [None]}))) == []
    assert list(event_lists(pa.table({"other": [1]}))) == []
