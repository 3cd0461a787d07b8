"""A sink that the job drops and names again. It finds its earlier entry in the ledger."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.sinks.errors import OutputSupersededError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import COLUMNS, rows_of
from tests.sinks.sql.world import World, staged


def two_tables(world: World) -> World:
    return world.table(name="b").table(name="c")


def test_r9_a_sink_that_has_released_to_another_table_is_refused(world: World) -> None:
    """Its ledger entry would keep naming the old table. A later sink of the job would then empty the new table."""
    two_tables(world)
    first = world.new(uid="two", table=world.named("b"))
    first.release([staged(first, 1)], 1)
    again = world.bind(uid="two", table=world.named("c"))
    with pytest.raises(TargetRefusedError, match=r"has released up to checkpoint 1 to .*b") as raised:
        again.check_rows(SinkInput("two", COLUMNS))
    assert raised.value.data["earlier_mode"] == "append"
    with pytest.raises(TargetRefusedError, match="Its ledger knows one table for each"):
        again.prepare()
    with pytest.raises(TargetRefusedError, match="mode 'replace'"):
        world.bind(uid="two", table=world.named("b"), mode="replace").prepare()
    world.new(uid="two", table=world.named("b")).release([staged(first, 2)], 2)
    assert world.rows("b") == rows_of(1, 2)


def test_r9_a_sink_with_another_uid_may_use_another_table(world: World) -> None:
    two_tables(world)
    first = world.new(uid="two", table=world.named("b"))
    first.release([staged(first, 1)], 1)
    again = world.new(uid="three", table=world.named("c"))
    again.release([staged(again, 2)], 9)
    world.new(uid="x", table=world.named("c"), mode="replace").release([], 12)
    assert world.rows("c") == rows_of(2), "rows of this very job"


def test_r9_a_sink_without_releases_may_change_its_table(world: World) -> None:
    """The job was restarted from scratch with a corrected table.

    A job that replaces the old table does not stop it. A job that replaces the new table does.
    """
    two_tables(world)
    world.new(uid="two", table=world.named("b"), mode="replace")
    again = world.new(uid="two", table=world.named("c"), mode="replace")
    other = world.new("other", uid="x", table=world.named("b"), mode="replace")
    other.release([staged(other, 5)], 1)
    again.prepare()
    third = world.new("third", uid="x", table=world.named("c"), mode="replace")
    third.release([staged(third, 6)], 1)
    with pytest.raises(OutputSupersededError, match="job 'third' has replaced"):
        again.prepare()
    assert (world.rows("b"), world.rows("c")) == (rows_of(5), rows_of(6))


def test_r9_a_tables_releases_are_known_after_preparing_another_table(world: World) -> None:
    """A version of the job that was tried, and released nothing, has prepared the sink for its own table."""
    two_tables(world)
    first = world.new(uid="two", table=world.named("b"))
    world.new(uid="two", table=world.named("c"))
    first.release([staged(first, 1)], 1)
    world.new(uid="x", table=world.named("b"), mode="replace").release([], 2)
    assert world.rows("b") == rows_of(1)
