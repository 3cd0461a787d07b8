"""Tables that are dropped or emptied after rows were released to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointReleased
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from tests.sinks.databases import rows_of
from tests.sinks.sql.world import World, staged


def released_once(world: World, **given: Any) -> JobState:
    """Release two rows as checkpoint 3. Return the state of the job's journal."""
    sink = world.new(**given)
    counts = sink.release([staged(sink, 1)], 3)
    assert world.rows() == rows_of(1)
    return JobState("orders", releases={3: CheckpointReleased(3, 1.0, {"lake": counts})})


@pytest.mark.parametrize(
    "given", [{"create": True}, {}, {"create": True, "mode": "upsert", "key": ["id"]}], ids=["create", "none", "upsert"]
)
def test_r9_a_dropped_table_with_released_rows_is_not_created_again(world: World, given: dict[str, Any]) -> None:
    state = released_once(world, **{**given, "create": True})
    world.run(f"DROP TABLE {world.schema}orders")
    sink = world.bind(**given)
    acts: list[Callable[[], Any]] = [
        lambda: refuse_lost_output(state, {"lake": sink}),  # before Spark starts
        sink.last_released,
        lambda: staged(sink, 2),  # the table was dropped while the job runs
    ]
    for act in acts:
        with pytest.raises(OutputLostError, match=r"checkpoint 3 was released to it.* Bring the table back"):
            act()
    assert (world.staged(), world.staging_tables()) == ([], 0)
    with pytest.raises(Exception, match="orders"):
        world.rows()


def test_r9_a_renamed_table_is_refused_until_it_is_renamed_back(world: World) -> None:
    state = released_once(world, create=True)
    world.run(f"ALTER TABLE {world.schema}orders RENAME TO {world.schema}archive")
    with pytest.raises(OutputLostError, match="Was the table dropped or renamed"):
        refuse_lost_output(state, {"lake": world.bind(create=True)})
    world.run(f"ALTER TABLE {world.schema}archive RENAME TO {world.schema}orders")
    sink = world.bind(create=True)
    refuse_lost_output(state, {"lake": sink})
    sink.release([staged(sink, 2)], 4)
    assert world.rows() == rows_of(1, 2)


def test_r9_a_table_dropped_with_its_ledger_is_detected_by_the_journal(world: World) -> None:
    state = released_once(world, create=True)
    world.run(f"DROP TABLE {world.schema}orders")
    world.forget()
    with pytest.raises(OutputLostError, match=r"has nothing .* the journal has 3: its folder or table"):
        refuse_lost_output(state, {"lake": world.bind(create=True)})


def test_a_dropped_table_without_released_rows_is_created_again(world: World) -> None:
    sink = world.new(create=True)
    staged(sink, 1)
    world.run(f"DROP TABLE {world.schema}orders")
    again = world.new(create=True)
    assert again.last_released() == 0
    again.release([staged(again, 2)], 1)
    assert world.rows() == rows_of(2)


def test_a_dropped_table_is_created_again_after_an_empty_release(world: World) -> None:
    world.table().new(mode="replace", create=True).release([], 1)
    world.run(f"DROP TABLE {world.schema}orders")
    again = world.new(mode="replace", create=True)
    assert again.last_released() == 1
    again.release([staged(again, 2)], 2)
    assert world.rows() == rows_of(2)


def test_an_empty_table_made_by_hand_continues_the_job_with_a_warning(world: World) -> None:
    """This lets a user who dropped the table intentionally continue the job."""
    state = released_once(world, create=True)
    world.run(f"DROP TABLE {world.schema}orders")
    sink = world.table().new(create=True)
    refuse_lost_output(state, {"lake": sink})
    assert "orders is empty, and checkpoint 3 was released to it" in str(sink.loss_evidence())
    sink.release([staged(sink, 2)], 4)
    assert (world.rows(), sink.loss_evidence()) == (rows_of(2), None)


def test_an_emptied_table_is_detected_by_its_ledger(world: World) -> None:
    sink = world.table().new()
    assert sink.loss_evidence() is None, "no row was released to it"
    sink.release([staged(sink, 1)], 3)
    assert sink.loss_evidence() is None
    world.run(f"DELETE FROM {world.schema}orders")
    warning = world.bind().loss_evidence()
    assert str(warning).endswith("orders is empty, and checkpoint 3 was released to it")
    world.put((7, "x"))
    assert sink.loss_evidence() is None
