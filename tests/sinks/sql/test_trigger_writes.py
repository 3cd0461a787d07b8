"""MariaDB's triggers that write to tables without transactions."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.database.names import TableName
from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, TargetRefusedError
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.sql.mysql_triggers import read_words
from tests.sinks.databases import COLUMNS, rows_of
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import staged

KEYED = "id int NOT NULL PRIMARY KEY, city varchar(99)"
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}


def add_audit(maria: MariaDBWorld, engine: str = "MyISAM", name: str = "audit") -> None:
    maria.run(f"CREATE TABLE {maria.schema}{name} (id int, city varchar(99)) ENGINE={engine}")


def add_trigger(maria: MariaDBWorld, body: str, event: str = "AFTER INSERT", on: str = "orders") -> None:
    """Create the trigger logs. ``body``: with {s} for the schema."""
    place = f"{maria.schema}{on}"
    maria.run(f"CREATE TRIGGER {maria.schema}logs{on} {event} ON {place} FOR EACH ROW {body.format(s=maria.schema)}")


def check(maria: MariaDBWorld, **given: Any) -> None:
    maria.bind(**given).check_rows(SinkInput("lake", COLUMNS))


def refused(maria: MariaDBWorld, **given: Any) -> str:
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        check(maria, **given)
    assert not [name for name in maria.tables() if name.startswith("ckpt_")], "something was written"
    return str(raised.value)


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_a_trigger_that_writes_to_a_table_without_transactions_is_refused(maria: MariaDBWorld, engine: str) -> None:
    maria.table(KEYED)
    add_audit(maria, engine)
    add_trigger(maria, "INSERT INTO audit VALUES (NEW.id, NEW.city)")
    error = refused(maria)
    assert f'its trigger logsorders writes to "{maria.database}".audit, whose engine {engine} keeps the rows' in error
    assert f'ALTER TABLE "{maria.database}".audit ENGINE=InnoDB' in error
    maria.run(f"ALTER TABLE {maria.schema}audit ENGINE=InnoDB")
    sink = maria.new()
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert maria.rows("audit") == maria.rows() == rows_of(1)


def test_a_trigger_added_after_stage_is_refused_at_the_release(maria: MariaDBWorld) -> None:
    sink = maria.table(KEYED).new()
    handle = staged(sink, 1)
    add_audit(maria)
    add_trigger(maria, "INSERT INTO audit VALUES (NEW.id, NEW.city)")
    with pytest.raises(ReleaseRefusedError, match="its trigger logsorders writes to"):
        sink.release([handle], 1)
    assert maria.rows("audit") == maria.rows() == []


@pytest.mark.parametrize(
    ("event", "mode", "is_refused"),
    [
        ("BEFORE UPDATE", {}, False),
        ("BEFORE UPDATE", UPSERT, True),
        ("AFTER DELETE", UPSERT, False),
        ("AFTER DELETE", {"mode": "replace"}, True),
    ],
)
def test_only_triggers_that_a_release_fires_are_checked(
    maria: MariaDBWorld, event: str, mode: dict[str, Any], is_refused: bool
) -> None:
    maria.table(KEYED)
    add_audit(maria)
    add_trigger(maria, "REPLACE audit SET id = OLD.id", event)
    if is_refused:
        assert "logsorders" in refused(maria, **mode)
    else:
        check(maria, **mode)


@pytest.mark.parametrize("how", ["a trigger of another table", "a procedure", "a function", "a view", "all of them"])
def test_indirect_writes_of_a_trigger_are_checked(maria: MariaDBWorld, how: str) -> None:
    maria.table(KEYED)
    add_audit(maria)
    add_audit(maria, "InnoDB", "safe")
    schema = maria.schema
    insert = f"INSERT INTO {schema}audit VALUES (1, 'a')"
    if how == "a trigger of another table":
        add_trigger(maria, "DELETE FROM {s}audit", "AFTER INSERT", on="safe")
        add_trigger(maria, "INSERT INTO {s}safe VALUES (NEW.id, NEW.city)")
    elif how == "a procedure":
        maria.run(f"CREATE PROCEDURE {schema}noted() BEGIN {insert}; END")
        add_trigger(maria, "CALL {s}noted()")
    elif how == "a function":
        maria.run(f"CREATE FUNCTION {schema}noted() RETURNS int BEGIN {insert}; RETURN 1; END")
        add_trigger(maria, "SET @n = noted()")
    else:
        maria.run(f"CREATE VIEW {schema}seen AS SELECT * FROM {schema}audit")
        if how == "a view":
            add_trigger(maria, "UPDATE seen SET id = 1")
        else:
            maria.run(f"CREATE PROCEDURE {schema}noted() BEGIN DELETE FROM seen; END")
            add_trigger(maria, "CALL noted", "AFTER INSERT", on="safe")
            add_trigger(maria, "INSERT INTO safe VALUES (NEW.id, NEW.city)")
    assert f'its trigger logsorders writes to "{maria.database}".audit' in refused(maria)


def test_a_table_that_a_trigger_only_reads_is_accepted(maria: MariaDBWorld, caplog: pytest.LogCaptureFixture) -> None:
    maria.table(KEYED)
    add_audit(maria, name="cities")
    add_audit(maria, "InnoDB")
    add_trigger(maria, "INSERT INTO audit SELECT NEW.id, (SELECT max(city) FROM cities WHERE id = NEW.id)")
    with caplog.at_level(logging.WARNING):
        check(maria)
    assert caplog.messages == []


@pytest.mark.parametrize("grant", [None, "TRIGGER ON {s}orders", "SELECT ON {s}audit"])
def test_triggers_that_the_user_may_not_read_are_a_warning(
    maria: MariaDBWorld, caplog: pytest.LogCaptureFixture, grant: str | None
) -> None:
    maria.table(KEYED)
    add_audit(maria, "InnoDB")
    add_trigger(maria, "INSERT INTO audit VALUES (NEW.id, NEW.city)")
    clerk, staging = f"clerk_w{maria.database.split()[1]}", f"{maria.database} staging"
    maria.run(f"CREATE USER {clerk} IDENTIFIED BY 's3cr3tPW'")
    maria.run(f"GRANT SELECT, INSERT ON {maria.schema}orders TO {clerk}")
    maria.run(f"CREATE DATABASE `{staging}`")
    maria.run(f"GRANT ALL ON `{staging}`.* TO {clerk}")
    if grant is not None:
        maria.run(f"GRANT {grant.format(s=maria.schema)} TO {clerk}")
    url = maria.url.replace("airflow:", f"{clerk}:")
    with caplog.at_level(logging.WARNING):
        check(maria, url=url, staging_schema=staging)
    assert "the triggers of table" in caplog.text
    assert "(logsorders)" in caplog.text
    caplog.clear()
    maria.run(f"GRANT TRIGGER ON {maria.schema}orders TO {clerk}")
    maria.run(f"GRANT SELECT ON {maria.schema}audit TO {clerk}")
    with caplog.at_level(logging.WARNING):
        check(maria, url=url, staging_schema=staging)
    assert caplog.messages == []


def names(*tables: str) -> tuple[TableName, ...]:
    return tuple(TableName(*table.split(".")) if "." in table else TableName("shop", table) for table in tables)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO audit (id) VALUES (NEW.id)", [names("INTO", "audit")]),
        ("insert ignore `other`.`a``b` set id = 1", [names("ignore", "other.a`b")]),
        ('REPLACE "audit" SELECT * FROM cities', [names("audit")]),
        ("UPDATE a JOIN b ON a.id = b.id SET a.n = 1", [names("a", "JOIN", "b", "ON", "a.id", "b.id")]),
        ("DELETE a FROM a WHERE id IN (SELECT id FROM b)", [names("a", "FROM", "a")]),
        ("BEGIN -- INSERT INTO x\n DELETE FROM a; /* UPDATE y */ UPDATE b SET n = 1; END", [("a",), ("b",)]),
        ("SET NEW.city = replace(NEW.city, 'INSERT INTO x', insert(NEW.city, 1, 1, 'it''s'))", []),
        ("INSERT INTO a VALUES (1) ON DUPLICATE KEY UPDATE n = n + 1", [("a",)]),
        ("SELECT id INTO @n FROM a FOR UPDATE", []),
    ],
)
def test_written_tables_are_parsed_from_a_statement(statement: str, expected: list[Any]) -> None:
    writes = read_words(statement, "shop").writes
    if expected and isinstance(expected[0][0], str):
        assert [[table.name for table in tables][-1:] for tables in writes] == [list(tables) for tables in expected]
    else:
        assert list(writes) == expected


def test_called_routines_are_parsed_from_a_statement() -> None:
    words = read_words("BEGIN CALL noted; CALL other.noted(); SET @a = f(1) + `o`.`g`(2); END", "shop")
    assert words.routines == set(names("noted", "other.noted"))
    assert words.possible_routines == set(names("other.noted", "f", "o.g"))
