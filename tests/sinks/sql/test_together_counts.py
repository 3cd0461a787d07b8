"""Counts of a transaction agree with its sinks. No sink reports rows for a checkpoint that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.release.sink_releases import TransactionGroup
from airflow_provider_ckpt.journal.events import CheckpointReleased, SinkReleased
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from airflow_provider_ckpt.sinks.sink import ReleaseParticipant
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from tests.sinks.databases import rows_of
from tests.sinks.sql.world import World, staged

NAMES = ("lines", "orders")


@pytest.fixture
def sinks(world: World) -> dict[str, BoundSqlSink]:
    for name in NAMES:
        world.table("id int NOT NULL PRIMARY KEY, city text", name)
    return {name: world.new(uid=name, table=name) for name in NAMES}


def release(sinks: dict[str, BoundSqlSink], checkpoint: int, *handles: Any) -> Mapping[str, Mapping[str, int]]:
    participants = [
        ReleaseParticipant(sink, list(sink_handles))
        for sink, sink_handles in zip(sinks.values(), handles or ([], []), strict=True)
    ]
    return dict(zip(NAMES, participants[0].sink.release_together(participants, checkpoint), strict=True))


def test_r9_a_lost_reply_before_an_empty_checkpoint_loses_no_counts(
    world: World, sinks: dict[str, BoundSqlSink]
) -> None:
    handles = [[staged(sink, 1)] for sink in sinks.values()]
    together, state = TransactionGroup(), JobState("orders")

    def loses_the_reply() -> Any:
        release(sinks, 5, *handles)
        raise SinkUnavailableError(message="2013")

    with pytest.raises(SinkUnavailableError, match="2013"):
        together.carry_out("lines", 5, loses_the_reply)  # the coordinator retries a second later
    counts = together.carry_out("orders", 5, lambda: release(sinks, 5, *handles))
    SinkReleased("orders", 5, 0.0, counts).apply(state)
    # checkpoint 6 completes meanwhile, without rows
    empty_counts = {name: together.carry_out(name, 6, lambda: release(sinks, 6, handles[0], [])) for name in NAMES}
    CheckpointReleased(6, 0.0, empty_counts).apply(state)
    assert [world.rows(name) for name in NAMES] == [rows_of(1)] * 2
    refuse_lost_output(state, sinks)  # the next start checks this


def test_r9_a_driver_death_between_two_sinks_reports_loses_no_counts(
    world: World, sinks: dict[str, BoundSqlSink]
) -> None:
    handles = [[staged(sink, 1)] for sink in sinks.values()]
    state, first = JobState("orders"), TransactionGroup()
    SinkReleased("lines", 5, 0.0, first.carry_out("lines", 5, lambda: release(sinks, 5, *handles))).apply(state)
    # The driver is killed. The next driver releases the part missing in the journal: checkpoint 5 of orders.
    refuse_lost_output(state, sinks)
    second = TransactionGroup()
    counts = {"orders": second.carry_out("orders", 5, lambda: release(sinks, 5, [], handles[1]))}
    CheckpointReleased(5, 0.0, counts).apply(state)
    # checkpoint 6 has no rows
    counts = {name: second.carry_out(name, 6, lambda: release(sinks, 6)) for name in NAMES}
    CheckpointReleased(6, 0.0, counts).apply(state)
    refuse_lost_output(state, sinks)  # the next start checks this


def test_r9_sinks_with_different_checkpoints_of_a_group_lose_no_counts(
    world: World, sinks: dict[str, BoundSqlSink]
) -> None:
    handles = [[staged(sink, 1)] for sink in sinks.values()]
    state, together = JobState("orders"), TransactionGroup()
    counts = together.carry_out("lines", 5, lambda: release(sinks, 5, *handles))
    SinkReleased("lines", 5, 0.0, counts).apply(state)
    counts = together.carry_out("orders", 6, lambda: release(sinks, 6, [], handles[1]))
    SinkReleased("orders", 6, 0.0, counts).apply(state)
    refuse_lost_output(state, sinks)
