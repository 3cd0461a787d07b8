"""The watermark of a query while some of its sources are idle. No Spark runs here."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.progress import SourceTimes, combined
from airflow_provider_ckpt.spark.task.streaming.idle_sources import QUIET, IdleSources


def source_times(watermark: int | None, at: float) -> SourceTimes:
    return SourceTimes(newest=watermark, last_row_at=at)


class Query:
    """The query's watermarks as they were raised, and a clock."""

    def __init__(self, **timeouts: float) -> None:
        self.raised: list[int] = []
        self.now = 1_000.0
        self.idle = IdleSources(timeouts, self.raised.append, lambda: self.now)
        self.idle.begin({"a", "b"})


def test_a_source_holds_the_watermark_until_its_timeout() -> None:
    query = Query(b=10)
    times = {"a": source_times(500, 1_000), "b": source_times(100, 1_000)}
    query.now += 9
    query.idle.advance_watermark(times)
    assert query.raised == []
    query.now += 1
    query.idle.advance_watermark(times)
    query.idle.advance_watermark(times)
    assert query.raised == [500]


def test_a_source_with_rows_again_holds_the_watermark_again() -> None:
    query = Query(b=10)
    query.now += 20
    query.idle.advance_watermark({"a": source_times(500, 1_020), "b": source_times(100, 1_015)})
    assert query.raised == []


def test_the_timeout_begins_with_the_query() -> None:
    """Time without a running query is not idleness."""
    query = Query(b=10)
    query.idle.advance_watermark({"a": source_times(500, 1_000), "b": source_times(100, 100)})
    assert query.raised == []


def test_a_source_without_a_row_holds_the_watermark() -> None:
    query = Query(b=10)
    query.now += 20
    query.idle.advance_watermark({"b": source_times(100, 1_000)})
    query.idle.advance_watermark({"a": source_times(None, 1_000), "b": source_times(100, 1_000)})
    assert query.raised == []


def test_if_every_source_is_idle_the_latest_watermark_holds() -> None:
    query = Query(a=10, b=10)
    query.now += 20
    query.idle.advance_watermark({"a": source_times(500, 1_000), "b": source_times(100, 1_000)})
    assert query.raised == [500]


def test_a_query_that_also_reads_a_bounded_source_is_unaffected() -> None:
    query = Query(b=10)
    query.idle.begin(())
    query.now += 20
    query.idle.advance_watermark({"a": source_times(500, 1_000), "b": source_times(100, 1_000)})
    assert query.raised == []


@pytest.mark.parametrize("later", [SourceTimes(newest=900, delay=10, last_row_at=3.0, ahead=1, without=2)])
def test_counts_add_up_and_times_advance(later: SourceTimes) -> None:
    before = {"a": SourceTimes(newest=1_000, delay=10, last_row_at=2.0, ahead=1, before_1970=4), "b": SourceTimes()}
    assert combined(before, {"a": later}) == {
        "a": SourceTimes(newest=1_000, delay=10, last_row_at=3.0, ahead=2, without=2, before_1970=4),
        "b": SourceTimes(),
    }


def test_a_watermark_that_no_batch_raises_is_due_after_a_quiet_time() -> None:
    query = Query(b=10)
    times = {"a": source_times(500, 1_011), "b": source_times(100, 1_000)}
    query.now += 11
    assert query.idle.overdue(times) is None
    query.now += QUIET
    assert query.idle.overdue(times) == 500
    query.idle.was_raised(500)
    query.now += 60
    assert query.idle.overdue(times) is None


def test_a_query_whose_batches_raise_the_watermark_is_not_stopped() -> None:
    query = Query(b=10)
    query.now += 11
    for newest in (500, 600, 700):
        times = {"a": source_times(newest, query.now), "b": source_times(100, 1_000)}
        assert query.idle.overdue(times) is None
        query.now += QUIET - 0.1
        assert query.idle.overdue(times) is None
        query.idle.advance_watermark(times)
    assert query.raised == [500, 600, 700]
