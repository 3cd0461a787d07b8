"""Tables of PostgreSQL that are dropped or emptied after rows were released to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from tests.sinks.databases import rows_of
from tests.sinks.postgres.world import World, staged

pytestmark = pytest.mark.slow


def released_once(world: World, **given: Any) -> None:
    sink = world.new(**given)
    sink.release([staged(sink, 1)], 3)
    assert world.rows() == rows_of(1)


@pytest.mark.parametrize("given", [{"create": True}, {}], ids=["create", "none"])
def test_r9_a_dropped_table_with_released_rows_is_not_created_again(world: World, given: dict[str, Any]) -> None:
    released_once(world, create=True)
    world.run(f'DROP TABLE "{world.schema}".orders')
    sink = world.bind(**given)
    acts: list[Callable[[], Any]] = [sink.last_released, lambda: staged(sink, 2)]
    for act in acts:
        with pytest.raises(OutputLostError, match=r"checkpoint 3 was released to it.* Bring the table back"):
            act()
    assert world.staging_tables() == 0
    assert world.run("SELECT to_regclass(%s)", f'"{world.schema}".orders') == [(None,)]


def test_a_dropped_table_without_released_rows_is_created_again(world: World) -> None:
    sink = world.new(create=True)
    staged(sink, 1)
    world.run(f'DROP TABLE "{world.schema}".orders')
    again = world.new(create=True)
    assert again.last_released() == 0
    again.release([staged(again, 2)], 1)
    assert world.rows() == rows_of(2)


def test_an_empty_table_made_by_hand_continues_the_job_with_a_warning(world: World) -> None:
    released_once(world, create=True)
    world.run(f'DROP TABLE "{world.schema}".orders')
    sink = world.table().new(create=True)
    assert str(sink.loss_evidence()).endswith(".orders is empty, and checkpoint 3 was released to it")
    sink.release([staged(sink, 2)], 4)
    assert (sink.last_released(), world.rows(), sink.loss_evidence()) == (4, rows_of(2), None)


@pytest.mark.parametrize("statement", ["DELETE FROM", "TRUNCATE"])
def test_an_emptied_table_is_detected_by_its_ledger(world: World, statement: str) -> None:
    sink = world.table().new()
    assert sink.loss_evidence() is None, "no row was released to it"
    sink.release([staged(sink, 1)], 3)
    assert sink.loss_evidence() is None
    world.run(f'{statement} "{world.schema}".orders')
    assert str(world.bind().loss_evidence()).endswith(".orders is empty, and checkpoint 3 was released to it")


def test_a_table_whose_rows_a_policy_hides_is_not_taken_for_empty(world: World) -> None:
    released_once(world, create=True)
    role, orders = f"clerk_{world.schema.split()[1]}_hid", f'"{world.schema}".orders'
    world.run(f"CREATE ROLE {role} LOGIN")
    world.run(f'GRANT USAGE ON SCHEMA "{world.schema}", "{world.staging}" TO {role}; GRANT ALL ON {orders} TO {role}')
    world.run(f'GRANT ALL ON ALL TABLES IN SCHEMA "{world.staging}" TO {role}')
    world.run(f"ALTER TABLE {orders} ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {orders} USING (city = 'mine')")
    sink = PostgresSink(orders, url=world.url.replace("airflow:s3cr3tPW", role), staging_schema=world.staging)
    bound = sink.bind(SinkContext("orders", "lake"))
    assert (bound.last_released(), bound.loss_evidence()) == (3, None)
