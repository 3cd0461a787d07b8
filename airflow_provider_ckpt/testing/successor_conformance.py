"""Tests of a sink and its successors: the next driver, another subtask, and their garbage collection."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.result_checks import checked_counts
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle
from airflow_provider_ckpt.subtasklog.attempts import AttemptsExcept
from airflow_provider_ckpt.testing.crash import SimulatedCrash, When
from airflow_provider_ckpt.testing.group_conformance import GroupConformance
from airflow_provider_ckpt.testing.no_spark import without_spark
from airflow_provider_ckpt.testing.released_rows import at_once, expected, ids_of, steps
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage


class SuccessorConformance(GroupConformance):
    """Tests of a sink and its successors. :class:`SinkConformance` inherits them and defines the fixtures."""

    def staged(self, spark: SparkSession, sink: BoundSink, batch_id: int, attempt: str = "a1") -> Handle:
        """Stage batch *b* with the rows 10 b and 10 b + 1, and return its handle."""
        return stage(sink, self.frame(spark, *ids_of(batch_id)), batch_id, attempt)

    def test_a_release_counts_the_rows_of_all_its_handles(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        empty, more = stage(sink, self.frame(spark), 2), stage(sink, self.frame(spark, 30, 31, 32), 3)
        handles = [self.staged(spark, sink, 1), empty, more, self.staged(spark, sink, 4)]
        counts = checked_counts("lake", sink, sink.release(handles, 1), handles)
        assert counts["rows"] == sum(handle["rows"] for handle in handles) == 7
        assert target.rows(spark) == expected([*ids_of(1), 30, 31, 32, *ids_of(4)])
        assert target.bind().release(handles, 1) == counts

    def test_r16_a_release_needs_no_spark(self, spark: SparkSession, target: SinkTarget, sink: BoundSink) -> None:
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        other = target.bind()
        with without_spark():
            assert sink.release([first], 1)["rows"] == 2
            assert other.release([first, second], 2)["rows"] == 2
            assert other.last_released() == 2
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r9_subtasks_may_use_the_same_batch_numbers(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Identify a batch by its id, because another subtask may use the same number or a lower one."""
        batches = [("a1.one", 7), ("a1.other", 7), ("a1.one", 9), ("a1.third", 5), ("a1.other", 9)]
        first, second, ahead, behind, level = (
            stage(sink, self.frame(spark, *ids_of(batch)), number, attempt)
            for batch, (attempt, number) in enumerate(batches, start=1)
        )
        assert sink.release([first, second], 1)["rows"] == 4
        for checkpoint, handle in enumerate((ahead, behind, level), start=2):
            assert sink.release([handle], checkpoint)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(*range(1, 6)))

    def test_r9_several_unrecorded_releases_are_skipped(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Model drivers that die before the journal records their release. Each successor repeats all releases."""
        handles = []
        for batch in range(1, 5):
            handles.append(self.staged(spark, sink, batch))
            assert target.bind().release(handles, batch)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1, 2, 3, 4))

    def test_preparing_a_target_again_keeps_its_rows(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Model a next driver that prepares the target before and after it releases its predecessor's output."""
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        target.bind().prepare()
        assert target.staged() == sorted([first["id"], second["id"]])
        sink.release([first], 1)
        target.bind().prepare()
        assert target.rows(spark) == expected(ids_of(1))
        assert sink.last_released() == 1
        assert target.bind().release([first, second], 2)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_a_batch_is_staged_while_another_is_released(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Use one bound sink: :meth:`stage` may run in one thread while :meth:`release` runs in another."""
        handles, released, batches = {1: self.staged(spark, sink, 1)}, set[int](), range(1, 5)
        for batch in batches:
            frame = self.frame(spark, *ids_of(batch + 1))

            def stage_next(following: int = batch + 1, rows: DataFrame = frame) -> None:
                handles[following] = stage(sink, rows, following)

            def release(number: int = batch) -> None:
                sink.release([handles[number]], number)
                released.add(number)

            at_once([stage_next, release])
            if batch + 1 not in handles:  # it may have raised a retryable error
                stage_next()
            if batch not in released:
                release()
        assert target.rows(spark) == expected(ids_of(*batches))

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_r5_a_crashed_release_is_completed_after_a_clean_up(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink, when: When
    ) -> None:
        """Model a next driver that prepares the target and deletes all output without a handle before it releases."""
        for at in steps():
            handle = self.staged(spark, sink, at)
            crashed = crashes(target.dying(at, when), [handle], at)
            successor = target.bind()
            successor.prepare()
            successor.collect_garbage({handle["id"]}, NO_ATTEMPT)
            successor.release([handle], at)
            assert target.rows(spark) == expected(ids_of(*range(1, at + 1)))
            if not crashed:
                assert at > 1, "no step of the release was crashed"
                return

    def test_r5_released_rows_are_not_garbage(self, spark: SparkSession, target: SinkTarget, sink: BoundSink) -> None:
        """Model the end of a job: all published output is released, and no attempt is alive."""
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        sink.release([first], 1)
        target.bind().collect_garbage({second["id"]}, NO_ATTEMPT)
        sink.release([second], 2)
        target.bind().collect_garbage((), NO_ATTEMPT)
        target.bind().collect_garbage((), AttemptsExcept({"a1"}))
        assert target.rows(spark) == expected(ids_of(1, 2))
        assert target.bind().release([first, second], 3)["rows"] == 0
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r5_deleting_an_old_list_of_staged_output_keeps_released_rows(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        released, _ = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        listed = sink.staged()
        sink.release([released], 1)
        if listed is None:
            return
        assert sorted(sink.staged() or ()) == target.staged()
        sink.delete_staged([*listed])  # it was listed before the release
        assert target.staged() == []
        assert target.rows(spark) == expected(ids_of(1))
        assert target.bind().last_released() == 1

    def test_r5_a_sink_does_not_delete_the_garbage_of_other_jobs(self, spark: SparkSession, target: SinkTarget) -> None:
        """Include a job whose sink has the same uid and whose attempt has the same name."""
        target = target.shared()
        other_sinks = [
            target.bind(job, uid) for job, uid in (("orders", "lake2"), ("orders2", "lake"), ("order", "s_lake"))
        ]
        own_sink = target.bind()
        for sink in (own_sink, *other_sinks):
            sink.prepare()
        foreign = [self.staged(spark, sink, batch) for batch, sink in enumerate(other_sinks, start=1)]
        orphan = self.staged(spark, own_sink, 9)
        assert own_sink.collect_garbage((), AttemptsExcept(())) == []
        listed = own_sink.staged()
        assert listed is None or list(listed) == [orphan["id"]]
        assert own_sink.collect_garbage((), AttemptsExcept({"a1"})) == [orphan["id"]]
        assert target.staged() == sorted(handle["id"] for handle in foreign)
        for sink, handle in zip(other_sinks, foreign, strict=True):
            assert sink.release([handle], 1)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1, 2, 3))


NO_ATTEMPT: Collection[str] = frozenset()


def crashes(sink: BoundSink, handles: list[Handle], checkpoint: int) -> bool:
    """Release the handles. Return True if the release ended at a simulated crash."""
    try:
        sink.release(handles, checkpoint)
    except SimulatedCrash:
        return True
    return False
