"""The conformance suite of sinks that share a transaction (``job.sink(…, transaction="shop")``).

It is part of the suite of a sink. It is skipped if the target has no group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.errors import TerminalError, TransientError
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, ReleaseParticipant
from airflow_provider_ckpt.testing.crash import SimulatedCrash, When
from airflow_provider_ckpt.testing.no_spark import without_spark
from airflow_provider_ckpt.testing.released_rows import SCHEMA, Damage, Row, at_once, expected, ids_of, steps
from airflow_provider_ckpt.testing.staging import stage

Handles = Sequence[Sequence[Handle]]
"""Handles of each sink of the group, in the group's order."""
NO_GROUP = "SinkTarget.group gives none: a sink of this kind is released by itself, and shares no transaction"


class SinkGroup(ABC):
    """Two sinks of one job that share a transaction. Every call of :meth:`bind` simulates another process."""

    @abstractmethod
    def bind(self) -> list[BoundSink]:
        """Return new instances of both sinks, always in the same order."""

    @abstractmethod
    def dying(self, at: int, when: When) -> list[BoundSink]:
        """Return sinks whose process raises SimulatedCrash before or after change ``at`` of the target, from 1."""

    @abstractmethod
    def losing(self) -> list[BoundSink]:
        """Return the sinks of a process whose first commit succeeds but raises the sink's usual TransientError."""

    @abstractmethod
    def damage(self, handle: Handle, how: Damage) -> None:
        """Damage a staged batch; see :meth:`SinkTarget.damage`."""

    @abstractmethod
    def rows(self, spark: SparkSession) -> list[list[Row]]:
        """Return the rows that any reader sees, sorted, for each sink."""


class GroupConformance:
    """Tests of ``BoundSink.release_together``. :class:`SinkConformance` inherits them."""

    @pytest.fixture
    def group(self) -> SinkGroup:
        raise NotImplementedError("override the fixture 'group'")

    def frame(self, spark: SparkSession, *ids: int) -> DataFrame:
        return spark.createDataFrame(expected(ids), SCHEMA).repartition(2)

    def both(self, spark: SparkSession, sinks: Sequence[BoundSink], batch: int) -> list[list[Handle]]:
        """Stage batch *b* with the rows 10 b and 10 b + 1 in each sink, and return the handles of each sink."""
        return [[stage(sink, self.frame(spark, *ids_of(batch)), batch)] for sink in sinks]

    def test_group_r9_one_call_releases_the_whole_group(self, spark: SparkSession, group: SinkGroup) -> None:
        sinks = group.bind()
        handles = self.both(spark, sinks, 1)
        assert group.rows(spark) == [[], []]
        with without_spark():
            assert together(sinks, handles, 1) == [2, 2]
        assert group.rows(spark) == shown(1)
        assert [sink.last_released() for sink in group.bind()] == [1, 1]

    def test_group_r9_a_release_counts_the_visible_rows_of_each_sink(
        self, spark: SparkSession, group: SinkGroup
    ) -> None:
        sinks = group.bind()
        first, second = self.both(spark, sinks, 1), self.both(spark, sinks, 2)
        assert together(sinks, [[*first[0], *second[0]], first[1]], 1) == [4, 2]
        assert group.rows(spark) == [expected(ids_of(1, 2)), expected(ids_of(1))]

    @pytest.mark.parametrize("broken", [0, 1])
    @pytest.mark.parametrize("how", ["cut", "deleted"])
    def test_group_r9_a_damaged_batch_of_one_sink_prevents_the_whole_release(
        self, spark: SparkSession, group: SinkGroup, how: Damage, broken: int
    ) -> None:
        sinks = group.bind()
        handles = self.both(spark, sinks, 1)
        group.damage(handles[broken][0], how)
        for process in (sinks, group.bind()):
            with pytest.raises(TerminalError):
                together(process, handles, 1)
        assert group.rows(spark) == [[], []]
        assert [sink.last_released() for sink in sinks] == [0, 0]

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_group_r9_a_crashed_release_is_atomic_and_the_next_completes_it(
        self, spark: SparkSession, group: SinkGroup, when: When
    ) -> None:
        for at in steps():
            handles = self.both(spark, group.bind(), at)
            crashed = dies(group.dying(at, when), handles, at)
            assert group.rows(spark) in (shown(*range(1, at)), shown(*range(1, at + 1)))
            together(group.bind(), handles, at)
            assert group.rows(spark) == shown(*range(1, at + 1))
            if not crashed:
                assert at > 1, "no step of the release was crashed"
                return

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_group_r9_a_higher_checkpoint_completes_a_crashed_release(
        self, spark: SparkSession, group: SinkGroup, when: When
    ) -> None:
        for at in steps():
            handles, more = self.both(spark, group.bind(), 2 * at), 2 * at + 1
            crashed = dies(group.dying(at, when), handles, 2 * at)
            handles[1].append(stage(group.bind()[1], self.frame(spark, *ids_of(more)), more))
            together(group.bind(), handles, more)
            assert group.rows(spark) == [expected(ids_of(*range(2, more, 2))), expected(ids_of(*range(2, more + 1)))]
            if not crashed:
                assert at > 1, "no step of the release was crashed"
                return

    def test_group_r9_a_release_with_a_lost_reply_is_not_repeated(self, spark: SparkSession, group: SinkGroup) -> None:
        sinks = group.bind()
        first, second = self.both(spark, sinks, 1), self.both(spark, sinks, 2)
        loses(group.losing(), first, 1)
        assert group.rows(spark) == shown(1)
        assert together(sinks, first, 1) == [2, 2]
        loses(group.losing(), joined(first, second), 2)
        assert together(group.bind(), joined(first, second), 3) == [0, 0]
        assert group.rows(spark) == shown(1, 2)

    def test_group_r9_releasing_again_changes_nothing(self, spark: SparkSession, group: SinkGroup) -> None:
        sinks = group.bind()
        handles = self.both(spark, sinks, 1)
        for process in (sinks, sinks, group.bind()):
            assert together(process, handles, 1) == [2, 2]
        assert group.rows(spark) == shown(1)

    def test_group_r9_concurrent_releases_release_once(self, spark: SparkSession, group: SinkGroup) -> None:
        for batch in range(1, 7):
            handles = self.both(spark, group.bind(), batch)
            at_once([releasing(group.bind(), handles, batch) for _ in range(3)])
            together(group.bind(), [[], []], batch)
            assert group.rows(spark) == shown(*range(1, batch + 1))

    def test_group_r9_a_late_release_of_a_zombie_changes_nothing(self, spark: SparkSession, group: SinkGroup) -> None:
        zombie, sinks = group.bind(), group.bind()
        assert [sink.last_released() for sink in zombie] == [0, 0]
        first, second = self.both(spark, sinks, 1), self.both(spark, sinks, 2)
        together(sinks, first, 1)
        together(sinks, second, 2)
        assert together(zombie, first, 1) == [0, 0]
        assert [sink.last_released() for sink in zombie] == [2, 2]
        assert group.rows(spark) == shown(1, 2)

    def test_group_r9_a_lower_checkpoint_is_not_released_after_a_higher_one(
        self, spark: SparkSession, group: SinkGroup
    ) -> None:
        """Allow the late release to raise a TerminalError, but not to make rows visible."""
        sinks = group.bind()
        first, second = self.both(spark, sinks, 1), self.both(spark, sinks, 2)
        together(sinks, first, 5)
        for late, checkpoint in ((sinks, 3), (group.bind(), 5)):
            with suppress(TerminalError):
                together(late, second, checkpoint)
        assert group.rows(spark) == shown(1)
        together(sinks, second, 6)
        assert group.rows(spark) == shown(1, 2)

    @pytest.mark.parametrize("empty", [0, 1])
    def test_group_a_sink_without_handles_does_not_delay_the_other(
        self, spark: SparkSession, group: SinkGroup, empty: int
    ) -> None:
        sinks = group.bind()
        first, second = self.both(spark, sinks, 1), self.both(spark, sinks, 2)
        first[empty], second[1 - empty] = [], []
        assert together(sinks, [[], []], 1) == [0, 0]
        assert together(sinks, first, 2)[1 - empty] == 2
        assert together(sinks, second, 3)[empty] == 2
        only = {1 - empty: expected(ids_of(1)), empty: expected(ids_of(2))}
        assert group.rows(spark) == [only[0], only[1]]

    @pytest.mark.parametrize("ahead", [0, 1])
    def test_group_a_release_skips_a_sink_that_was_released_alone(
        self, spark: SparkSession, group: SinkGroup, ahead: int
    ) -> None:
        """Model sinks that begin to share a transaction between two runs."""
        sinks = group.bind()
        handles = self.both(spark, sinks, 1)
        assert sinks[ahead].release(handles[ahead], 1)["rows"] == 2
        assert together(sinks, handles, 1)[1 - ahead] == 2
        assert group.rows(spark) == shown(1)

    @pytest.mark.parametrize("alone", [0, 1])
    def test_group_a_sink_released_alone_skips_rows_that_the_group_released(
        self, spark: SparkSession, group: SinkGroup, alone: int
    ) -> None:
        """Model sinks that stop sharing a transaction after a release that the journal does not record."""
        first, second = self.both(spark, group.bind(), 1), self.both(spark, group.bind(), 2)
        together(group.bind(), first, 1)
        assert group.bind()[alone].release(first[alone], 1)["rows"] == 2
        for uid in (alone, 1 - alone):
            assert group.bind()[uid].release(joined(first, second)[uid], 2)["rows"] == 2
        assert group.rows(spark) == shown(1, 2)
        assert together(group.bind(), joined(first, second), 3) == [0, 0]
        assert group.rows(spark) == shown(1, 2)

    def test_group_r9_the_order_of_the_sinks_may_change_in_the_next_run(
        self, spark: SparkSession, group: SinkGroup
    ) -> None:
        """Model a job's file that defines the sinks in another order."""
        first, second = self.both(spark, group.bind(), 1), self.both(spark, group.bind(), 2)
        together(group.bind(), first, 1)
        handles = [first[1], [*first[0], *second[0]]]
        assert together(group.bind()[::-1], handles, 2) == [0, 2]
        assert group.rows(spark) == [expected(ids_of(1, 2)), expected(ids_of(1))]
        assert group.bind()[0].last_released() == 2


def shown(*batches: int) -> list[list[Row]]:
    return [expected(ids_of(*batches))] * 2


def joined(group: Handles, other_group: Handles) -> list[list[Handle]]:
    return [[*first, *second] for first, second in zip(group, other_group, strict=True)]


def together(sinks: Sequence[BoundSink], handles: Handles, checkpoint: int) -> list[int]:
    """Release the handles together and return the rows that each sink reports."""
    participants = [ReleaseParticipant(sink, sink_handles) for sink, sink_handles in zip(sinks, handles, strict=True)]
    return [counts["rows"] for counts in sinks[0].release_together(participants, checkpoint)]


def releasing(sinks: Sequence[BoundSink], handles: Handles, checkpoint: int) -> Callable[[], object]:
    return lambda: together(sinks, handles, checkpoint)


def dies(sinks: Sequence[BoundSink], handles: Handles, checkpoint: int) -> bool:
    try:
        together(sinks, handles, checkpoint)
    except SimulatedCrash:
        return True
    return False


def loses(sinks: Sequence[BoundSink], handles: Handles, checkpoint: int) -> None:
    with pytest.raises(TransientError):
        together(sinks, handles, checkpoint)
