"""Triggers and rules of a table that keep old rows, or keep new rows out."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from tests.sinks.databases import COLUMNS, rows_of
from tests.sinks.postgres.world import World, staged

OLD = [(7, "old"), (8, "old")]
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}
KEEPING = {
    "keeps each row": ("BEFORE", "RETURN NULL;"),
    "keeps one row": ("BEFORE", "IF OLD.id = 8 THEN RETURN NULL; END IF; RETURN OLD;"),
    "inserts rows again": ("AFTER", "INSERT INTO {orders} VALUES (OLD.id, OLD.city); RETURN NULL;"),
}


def add_trigger(world: World, when: str, body: str) -> str:
    """Create a trigger on DELETE and return the statement that drops it."""
    orders, function = world.named("orders"), world.named("keeps")
    text = body.format(orders=orders)
    world.run(f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {text} END $$")
    world.run(f"CREATE TRIGGER keeps {when} DELETE ON {orders} FOR EACH ROW EXECUTE FUNCTION {function}()")
    return f"DROP TRIGGER keeps ON {orders}"


def put(world: World, *rows: tuple[int, str]) -> None:
    for row in rows:
        world.run(f"INSERT INTO {world.named('orders')} VALUES (%s, %s)", *row)


@pytest.mark.parametrize("how", KEEPING)
def test_old_rows_that_a_trigger_keeps_fail_a_replacing_release(world: World, how: str) -> None:
    sink = world.table().new(mode="replace")
    put(world, *OLD)
    drop = add_trigger(world, *KEEPING[how])
    handle = staged(sink, 1)
    with pytest.raises(ReleaseRefusedError, match="still has rows after the release deleted all of them") as raised:
        sink.release([handle], 1)
    assert "Checkpoint 1 of sink lake of job 'orders'" in str(raised.value)
    assert (world.rows(), world.staged(), sink.last_released()) == (OLD, [handle["id"]], 0)
    world.run(drop)
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_a_first_release_without_rows_fails_if_old_rows_remain(world: World) -> None:
    sink = world.table().new(mode="replace")
    put(world, *OLD)
    add_trigger(world, *KEEPING["keeps one row"])
    with pytest.raises(ReleaseRefusedError, match="still has rows"):
        sink.release([], 1)
    assert (world.rows(), sink.last_released()) == (OLD, 0)


def test_a_later_policy_that_hides_rows_fails_a_first_release(world: World) -> None:
    orders, role = world.table().named("orders"), f"clerk_{world.schema.split()[1]}"
    put(world, *OLD)
    world.run(f"CREATE ROLE {role} LOGIN")
    for place in (f'"{world.schema}"', f'"{world.staging}"'):
        world.run(f"CREATE SCHEMA IF NOT EXISTS {place}")
        world.run(f"GRANT ALL ON SCHEMA {place} TO {role}")
    world.run(f"GRANT ALL ON {orders} TO {role}")
    url = world.url.replace("airflow:s3cr3tPW", role)
    given: dict[str, Any] = {"mode": "replace", "url": url, "staging_schema": world.staging}
    sink = PostgresSink(orders, **given).bind(SinkContext("orders", "lake"))
    sink.prepare()
    world.run(f"ALTER TABLE {orders} ENABLE ROW LEVEL SECURITY")
    with pytest.raises(ReleaseRefusedError, match="query would be affected by row-level security policy"):
        sink.release([], 1)
    assert (world.rows(), sink.last_released()) == (OLD, 0)
    world.run(f"ALTER ROLE {role} BYPASSRLS")
    assert sink.release([], 1) == {"rows": 0}
    assert world.rows() == []


def test_a_trigger_that_allows_deletes_does_not_disturb_a_replace(world: World) -> None:
    sink = world.table().new(mode="replace")
    put(world, *OLD)
    add_trigger(world, "BEFORE", "RETURN OLD;")
    sink.release([staged(sink, 1)], 1)
    assert world.rows() == rows_of(1)


def test_a_concurrent_insert_does_not_fail_a_replacing_release(world: World) -> None:
    world.table()
    put(world, *OLD)
    late = [(9, "late")]

    class Interrupted(psycopg.Connection[Any]):
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            text = query if isinstance(query, str) else query.as_string(self)
            if late and text.startswith("SELECT FROM") and text.endswith("LIMIT 1"):
                put(world, late.pop())
            return super().execute(query, *args, **more)

    world.new(mode="replace")
    sink = world.bind(mode="replace", connect=Interrupted.connect)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert (world.rows(), late) == (rows_of(1), [])


RULES = [
    ({}, "INSERT", "DO INSTEAD NOTHING", "its rule keeper (ON INSERT DO INSTEAD) keeps rows out of the table"),
    ({}, "INSERT", "WHERE NEW.id > 10 DO INSTEAD NOTHING", "keeps rows out of the table"),
    ({"mode": "replace"}, "INSERT", "DO INSTEAD NOTHING", "keeps rows out of the table"),
    ({"mode": "replace"}, "DELETE", "DO INSTEAD NOTHING", "its rule keeper (ON DELETE DO INSTEAD) keeps the rows that"),
    (UPSERT, "INSERT", "DO ALSO NOTHING", "PostgreSQL refuses an upsert, because the table has the rule keeper"),
    (UPSERT, "UPDATE", "DO INSTEAD NOTHING", "because the table has the rule keeper on UPDATE. DROP RULE keeper"),
]


@pytest.mark.parametrize(("mode", "event", "act", "message"), RULES)
def test_rules_that_act_instead_of_the_release_are_refused_at_the_start(
    world: World, mode: dict[str, Any], event: str, act: str, message: str
) -> None:
    world.table("id int PRIMARY KEY, city text")
    world.run(f"CREATE RULE keeper AS ON {event} TO {world.named('orders')} {act}")
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        world.bind(**mode).check_rows(SinkInput("lake", COLUMNS))
    assert message in str(raised.value)
    assert world.run("SELECT to_regnamespace(quote_ident(%s))", world.staging) == [(None,)]


@pytest.mark.parametrize(("mode", "event", "act", "message"), RULES)
def test_rules_added_after_stage_are_refused_at_the_release(
    world: World, mode: dict[str, Any], event: str, act: str, message: str
) -> None:
    sink = world.table("id int PRIMARY KEY, city text").new(**mode)
    put(world, *OLD)
    handle = staged(sink, 1)
    world.run(f"CREATE RULE keeper AS ON {event} TO {world.named('orders')} {act}")
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as raised:
        sink.release([handle], 1)
    assert message.partition(". ")[0] in str(raised.value)
    assert world.rows() == OLD
    world.run(f"DROP RULE keeper ON {world.named('orders')}")
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == (rows_of(1) if mode.get("mode") == "replace" else OLD + rows_of(1))


def test_a_disabled_rule_is_refused_only_if_postgresql_refuses_it(world: World) -> None:
    """PostgreSQL refuses ON CONFLICT for a table with a rule on UPDATE, even if the rule is disabled."""
    world.table("id int PRIMARY KEY, city text")
    orders = world.named("orders")
    for event in ("INSERT", "UPDATE"):
        world.run(f"CREATE RULE at_{event} AS ON {event} TO {orders} DO INSTEAD NOTHING")
        world.run(f"ALTER TABLE {orders} DISABLE RULE at_{event}")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        world.run(f"INSERT INTO {orders} VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET city = 'b'")
    with pytest.raises(TargetRefusedError, match="has the rule at_update"):
        world.bind(**UPSERT).check_rows(SinkInput("lake", COLUMNS))
    world.run(f"DROP RULE at_UPDATE ON {orders}")
    sink = world.new(**UPSERT)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_a_rule_that_also_writes_to_another_table_is_accepted(world: World) -> None:
    sink = world.table().table(name="log").new()
    orders, log = world.named("orders"), world.named("log")
    world.run(f"CREATE RULE logs AS ON INSERT TO {orders} DO ALSO INSERT INTO {log} VALUES (NEW.id, NEW.city)")
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert world.rows() == world.rows("log") == rows_of(1)
