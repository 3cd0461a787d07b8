"""The watermark of a query while some of its sources are idle. No Spark runs here."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.model.progress import SourceTimes, TimesByInput, combined
from airflow_provider_ckpt.spark.task.streaming.idle_sources import QUIET, IdleSources


def source_times(watermark: int | None, at: float) -> SourceTimes:
    return SourceTimes(newest=watermark, last_row_at=at)


class Query:
    """The query's watermarks as they were raised, and a clock."""

    def __init__(self, **timeouts: float) -> None:
        self.raised: list[int] = []
        self.now = 1_000.0
        self.takes_watermarks = True
        self.idle = IdleSources(timeouts, self._raise, lambda: self.now)
        self.idle.begin({"a", "b"})

    def _raise(self, watermark: int) -> bool:
        self.raised.append(watermark)
        return self.takes_watermarks

    def advance(self, times: TimesByInput) -> None:
        self.idle.advance_watermark(times, self.now)

    def overdue(self, times: TimesByInput) -> int | None:
        return self.idle.overdue(times, self.now)


def test_a_source_holds_the_watermark_until_its_timeout() -> None:
    query = Query(b=10)
    times = {"a": source_times(500, 1_000), "b": source_times(100, 1_000)}
    query.now += 9
    query.advance(times)
    assert query.raised == []
    query.now += 1
    query.advance(times)
    query.advance(times)
    assert query.raised == [500]


def test_a_source_with_rows_again_holds_the_watermark_again() -> None:
    query = Query(b=10)
    query.now += 20
    query.advance({"a": source_times(500, 1_020), "b": source_times(100, 1_015)})
    assert query.raised == []


def test_the_timeout_begins_with_the_query() -> None:
    """Time without a running query is not idleness."""
    query = Query(b=10)
    query.advance({"a": source_times(500, 1_000), "b": source_times(100, 100)})
    assert query.raised == []


def test_a_source_without_a_row_holds_the_watermark() -> None:
    query = Query(b=10)
    query.now += 20
    query.advance({"b": source_times(100, 1_000)})
    query.advance({"a": source_times(None, 1_000), "b": source_times(100, 1_000)})
    assert query.raised == []


def test_if_every_source_is_idle_the_latest_watermark_holds() -> None:
    query = Query(a=10, b=10)
    query.now += 20
    query.advance({"a": source_times(500, 1_000), "b": source_times(100, 1_000)})
    assert query.raised == [500]


def test_a_query_that_also_reads_a_bounded_source_is_unaffected() -> None:
    query = Query(b=10)
    query.idle.begin(())
    query.now += 20
    query.advance({"a": source_times(500, 1_000), "b": source_times(100, 1_000)})
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
    assert query.overdue(times) is None
    query.now += QUIET
    assert query.overdue(times) == 500
    query.idle.was_raised(500)
    query.now += 60
    assert query.overdue(times) is None


def test_a_query_whose_batches_raise_the_watermark_is_not_stopped() -> None:
    query = Query(b=10)
    query.now += 11
    for newest in (500, 600, 700):
        times = {"a": source_times(newest, query.now), "b": source_times(100, 1_000)}
        assert query.overdue(times) is None
        query.now += QUIET - 0.1
        assert query.overdue(times) is None
        query.advance(times)
    assert query.raised == [500, 600, 700]


def test_a_source_is_idle_by_the_time_at_which_its_input_was_listed() -> None:
    """Rows that came after the listing wait for the next micro-batch, and would be late."""
    query = Query(b=10)
    times = {"a": source_times(500, 1_000), "b": source_times(100, 1_000)}
    query.now += 60
    query.idle.advance_watermark(times, 1_009.0)
    assert query.idle.overdue(times, 1_009.0) is None
    assert query.raised == []


def test_a_query_that_is_still_starting_gets_the_watermark_later() -> None:
    query = Query(b=10)
    query.takes_watermarks = False
    query.now += 11
    times = {"a": source_times(500, 1_011), "b": source_times(100, 1_000)}
    query.advance(times)
    query.takes_watermarks = True
    query.advance(times)
    assert query.raised == [500, 500]
