"""The conformance suite of two-phase-commit sinks.

Every call of :meth:`SinkTarget.bind` simulates another process, but all run in one process. The suite therefore cannot
detect a sink that has data in a global variable of its module, which another process would not have.
"""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import GarbageLeftError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import NO_GROUP, SinkGroup
from airflow_provider_ckpt.testing.released_rows import SCHEMA, Damage, Row, at_once, expected, ids_of, steps
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from airflow_provider_ckpt.testing.successor_conformance import SuccessorConformance, crashes


class SinkConformance(SuccessorConformance):
    """The suite of a sink. A test class inherits it and overrides :meth:`target`."""

    @pytest.fixture
    def target(self) -> SinkTarget:
        raise NotImplementedError("override the fixture 'target'")

    @pytest.fixture
    def sink(self, target: SinkTarget) -> BoundSink:
        sink = target.bind()
        sink.prepare()
        return sink

    @pytest.fixture
    def group(self, target: SinkTarget) -> SinkGroup:
        return group_of(target)

    def test_staged_rows_are_invisible_until_their_checkpoint_is_released(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        assert first["rows"] == second["rows"] == 2
        assert target.rows(spark) == []
        assert sink.release([first], 1)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1))
        assert target.staged() == [second["id"]]
        assert sink.release([second], 2)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1, 2))
        assert target.staged() == []

    def test_another_process_can_release_with_only_the_handles(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        handle = self.staged(spark, sink, 1)
        assert target.bind().release([handle], 1)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1))

    def test_r5_a_repeated_batch_does_not_replace_the_first_one(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        first = stage(sink, self.frame(spark, 1, 2, 3), 7)
        again = stage(sink, self.frame(spark, 1, 2), 7)
        assert first["id"] != again["id"]
        assert target.staged() == sorted([first["id"], again["id"]])
        sink.release([again], 1)
        assert target.rows(spark) == expected([1, 2])

    def test_r18_a_frame_is_computed_once(self, spark: SparkSession, sink: BoundSink) -> None:
        seen = spark.sparkContext.accumulator(0)

        def count(row: Row) -> Row:
            seen.add(1)
            return row

        rows = spark.sparkContext.parallelize(expected(range(6)), 3).map(count)
        stage(sink, spark.createDataFrame(rows, SCHEMA), 1)
        assert seen.value == 6

    def test_an_empty_batch_stages_nothing(self, spark: SparkSession, target: SinkTarget, sink: BoundSink) -> None:
        handle = stage(sink, self.frame(spark), 1)
        assert handle["rows"] == 0
        assert target.staged() == []
        assert sink.release([handle], 1)["rows"] == 0
        assert target.rows(spark) == []

    def test_a_new_sink_has_released_nothing(self, sink: BoundSink) -> None:
        assert sink.last_released() == 0
        assert sink.release([], 1)["rows"] == 0

    def test_last_released_is_read_from_the_target(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        other = target.bind()
        assert other.last_released() == 0
        sink.release([self.staged(spark, sink, 1)], 4)
        assert other.last_released() == 4
        assert target.bind().last_released() == 4

    def test_r9_releasing_again_changes_nothing(self, spark: SparkSession, target: SinkTarget, sink: BoundSink) -> None:
        handle = self.staged(spark, sink, 1)
        counts = sink.release([handle], 1)
        assert sink.release([handle], 1) == counts
        assert target.bind().release([handle], 1) == counts
        assert target.rows(spark) == expected(ids_of(1))

    def test_r9_a_late_release_of_a_zombie_changes_nothing(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        zombie = target.bind()
        assert zombie.last_released() == 0
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        sink.release([first], 1)
        sink.release([second], 2)
        assert zombie.release([first], 1)["rows"] == 0
        assert zombie.last_released() == 2
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r9_a_zombie_repeats_no_rows_before_an_empty_checkpoint(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        zombie = target.bind()
        assert zombie.last_released() == 0
        handle, empty = self.staged(spark, sink, 1), stage(sink, self.frame(spark), 2)
        sink.release([handle], 1)
        sink.release([empty], 2)
        assert zombie.release([handle, empty], 2)["rows"] == 0
        assert target.rows(spark) == expected(ids_of(1))

    def test_r9_a_higher_checkpoint_skips_released_batches(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        # Checkpoint 1 was released, the journal did not record it, and 2 completed meanwhile.
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        sink.release([first], 1)
        assert target.bind().release([first, second], 2)["rows"] == 2
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r9_a_lower_checkpoint_is_not_released_after_a_higher_one(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Allow the late release to raise a TerminalError, but not to make rows visible."""
        first, second = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        sink.release([first], 5)
        for late, checkpoint in ((sink, 3), (target.bind(), 5)):
            with suppress(TerminalError):
                late.release([second], checkpoint)
        assert target.rows(spark) == expected(ids_of(1))
        sink.release([second], 6)
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r9_concurrent_releases_release_once(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        batches = range(1, 7)
        for batch in batches:
            together([target.bind() for _ in range(3)], [self.staged(spark, sink, batch)], batch)
            sink.release([], batch)
        assert target.rows(spark) == expected(ids_of(*batches))

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_the_next_release_completes_one_that_crashed_at_any_step(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink, when: When
    ) -> None:
        for at in steps():
            handle = self.staged(spark, sink, at)
            crashed = crashes(target.dying(at, when), [handle], at)
            sink.release([handle], at)
            assert target.rows(spark) == expected(ids_of(*range(1, at + 1)))
            if not crashed:
                assert at > 1, "no step of the release was crashed"
                return

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_higher_checkpoint_completes_a_release_that_crashed_at_any_step(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink, when: When
    ) -> None:
        for at in steps():
            first, second = self.staged(spark, sink, 2 * at), self.staged(spark, sink, 2 * at + 1)
            crashed = crashes(target.dying(at, when), [first], 2 * at)
            target.bind().release([first, second], 2 * at + 1)
            assert target.rows(spark) == expected(ids_of(*range(2, 2 * at + 2)))
            if not crashed:
                assert at > 1, "no step of the release was crashed"
                return

    @pytest.mark.parametrize("how", ["cut", "deleted"])
    def test_a_damaged_batch_prevents_the_whole_release(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink, how: Damage
    ) -> None:
        whole, broken = self.staged(spark, sink, 1), self.staged(spark, sink, 2)
        target.damage(broken, how)
        for process in (sink, target.bind()):
            with pytest.raises(TerminalError):
                process.release([whole, broken], 1)
        assert sink.last_released() == 0
        assert target.rows(spark) == []
        assert whole["id"] in target.staged()
        sink.release([whole], 1)
        assert target.rows(spark) == expected(ids_of(1))

    def test_rows_are_durable_before_a_handle_is_returned(self, spark: SparkSession, target: SinkTarget) -> None:
        assert target.synced(spark, self.frame(spark, 1, 2, 3))

    def test_the_definition_is_plain_json_and_stable(self, target: SinkTarget) -> None:
        definition = dict(target.definition())
        assert json.loads(json.dumps(definition)) == definition == dict(target.definition())
        assert "type" in definition

    def test_r5_garbage_has_neither_a_handle_nor_a_live_attempt(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        published = self.staged(spark, sink, 1, "a-1.old")
        orphan = self.staged(spark, sink, 2, "a-1.old")
        prepared = self.staged(spark, sink, 2, "a-2")
        foreign = self.staged(spark, ready(target.bind(uid="other")), 2, "a-1.old")
        assert sink.collect_garbage({published["id"]}, {"a-2"}) == [orphan["id"]]
        assert target.staged() == sorted([published["id"], prepared["id"], foreign["id"]])
        assert sink.collect_garbage({published["id"]}, {"a-2"}) == []
        sink.release([published, prepared], 1)
        assert target.rows(spark) == expected(ids_of(1, 2))

    def test_r5_garbage_that_cannot_be_deleted_keeps_no_other(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Require GarbageLeftError, after which a driver continues. Any other error would end each run of the job."""
        garbage = [self.staged(spark, sink, batch, "a-1.old") for batch in (1, 2, 3)]
        left, deleted = garbage[1]["id"], [garbage[0]["id"], garbage[2]["id"]]
        with pytest.raises(GarbageLeftError) as raised:
            target.refusing(garbage[1]).collect_garbage(set(), {"a-2"})
        assert (raised.value.data["left"], sorted(raised.value.data["deleted"])) == ([left], deleted)
        assert target.staged() == [left]

    def test_r5_a_sink_deletes_only_the_staged_output_that_it_lists(
        self, spark: SparkSession, target: SinkTarget, sink: BoundSink
    ) -> None:
        """Allow a sink that does not list its staged output: ``ckpt gc`` then does not delete that output."""
        kept = self.staged(spark, sink, 1, "a-1")
        orphan = self.staged(spark, sink, 2, "a-1")
        foreign = self.staged(spark, ready(target.bind(uid="other")), 2, "a-1")
        listed = sink.staged()
        if listed is None:
            return
        assert sorted(listed) == sorted([kept["id"], orphan["id"]])
        assert all(sum(sizes) > 0 for sizes in listed.values())
        sink.delete_staged([orphan["id"]])
        sink.delete_staged([orphan["id"]])
        assert target.staged() == sorted([kept["id"], foreign["id"]])
        sink.release([kept], 1)
        assert target.rows(spark) == expected(ids_of(1))

    def test_jobs_and_sinks_that_share_a_target_do_not_interfere(self, spark: SparkSession, target: SinkTarget) -> None:
        target = target.shared()
        for number, (job, uid) in enumerate((("a-b", "c"), ("a", "b_c"), ("a", "b"), ("a_b", "c")), start=1):
            sink = target.bind(job, uid)
            sink.prepare()
            assert sink.last_released() == 0
            sink.release([self.staged(spark, sink, number)], 1)
        assert target.rows(spark) == expected(ids_of(1, 2, 3, 4))


def group_of(target: SinkTarget) -> SinkGroup:
    """Return the prepared group of a target. Skip the test if the target has no group."""
    group = target.group()
    if group is None:
        pytest.skip(NO_GROUP)
    for sink in group.bind():
        sink.prepare()
    return group


def ready(sink: BoundSink) -> BoundSink:
    sink.prepare()
    return sink


def together(sinks: list[BoundSink], handles: list[Handle], checkpoint: int) -> None:
    at_once([lambda sink=sink: sink.release(handles, checkpoint) for sink in sinks])  # type: ignore[misc]
