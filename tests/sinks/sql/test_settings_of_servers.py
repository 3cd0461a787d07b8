"""Sessions behave the same whatever the server's own settings are."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow
import pytest

from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import COLUMNS, rows_of, stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.timestamps import TYPES, WINDOW, upsert_one_key
from tests.sinks.sql.world import Rows, staged

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sql_select_limit", "1"),
        ("completion_type", "1"),
        ("completion_type", "2"),
        ("autocommit", "0"),
        ("max_join_size", "1"),
        ("sql_auto_is_null", "1"),
        ("innodb_snapshot_isolation", "1"),
        ("character_set_server", "utf8mb3"),
        ("foreign_key_checks", "0"),
        ("lock_wait_timeout", "0"),
        ("old_mode", "''"),
        ("explicit_defaults_for_timestamp", "0"),
        ("max_statement_time", "30"),
        ("sql_safe_updates", "1"),
        ("innodb_strict_mode", "0"),
        ("sql_notes", "0"),
        ("div_precision_increment", "0"),
        ("sql_quote_show_create", "0"),
        ("use_stat_tables", "'PREFERABLY'"),
        ("in_predicate_conversion_threshold", "1"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
def test_settings_of_the_server_do_not_change_a_release(
    maria: MariaDBWorld, setting: Any, name: str, value: str, mode: str
) -> None:
    setting(name, value)
    maria.table("id int NOT NULL PRIMARY KEY, city text")
    given: dict[str, Any] = {"mode": mode, **({"key": ["id"]} if mode == "upsert" else {})}
    sink = maria.new(**given)
    handles = [staged(sink, number) for number in (1, 2, 3)]
    sink.release(handles[:2], 1)
    assert maria.bind(**given).release(handles, 2) == {"rows": 2}
    maria.run("SET GLOBAL sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615")
    assert maria.rows() == rows_of(1, 2, 3)
    assert maria.staged() == []


def test_sql_select_limit_does_not_hide_staged_rows(maria: MariaDBWorld, setting: Any) -> None:
    maria.table()
    sink = maria.new()
    handles = [staged(sink, number) for number in range(1, 9)]
    setting("sql_select_limit", "7")  # administrators set 1000, for example, against careless queries
    assert sink.release(handles, 1) == {"rows": 16}


def test_a_null_timestamp_stays_null_with_mariadbs_old_default(maria: MariaDBWorld, setting: Any) -> None:
    maria.table("id int NOT NULL, at timestamp(6) NULL")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("id", "integer"), ("at", "timestamp"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [pyarrow.int32(), pyarrow.timestamp("us", "UTC")]
    handle = stage(sink, Rows([[(1, None)]], columns, types=types), 1)
    sink.release([handle], 1)
    assert maria.rows() == [(1, None)]


def test_two_timestamps_are_staged_with_mariadbs_old_default(
    maria: MariaDBWorld,
    setting: Any,
) -> None:
    maria.table("id int NOT NULL, at timestamp(6) NULL, til timestamp(6) NULL")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("id", "integer"), ("at", "timestamp"), ("til", "timestamp"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [pyarrow.int32(), pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("us", "UTC")]
    stage(sink, Rows([[(1, None, None)]], columns, types=types), 1)


def test_two_not_null_timestamps_are_staged_with_mariadbs_old_default(
    maria: MariaDBWorld,
    setting: Any,
) -> None:
    maria.table("at timestamp(6) NOT NULL, til timestamp(6) NOT NULL DEFAULT '2026-01-01', city text")
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("at", "timestamp"), ("til", "timestamp"), ("city", "string"))
    sink = maria.bind()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [TYPES[0], TYPES[0], pyarrow.string()]
    handle = stage(sink, Rows([[(WINDOW, WINDOW, "a")]], columns, types=types), 1)
    assert sink.release([handle], 1) == {"rows": 1}


@pytest.mark.parametrize("create", [False, True])
def test_a_timestamp_key_is_kept_in_an_upsert_with_mariadbs_old_default(
    maria: MariaDBWorld,
    setting: Any,
    create: bool,
) -> None:
    """The setting makes TIMESTAMP NOT NULL mean NOT NULL DEFAULT current_timestamp ON UPDATE current_timestamp."""
    setting("explicit_defaults_for_timestamp", "0")
    if not create:
        maria.table("at timestamp(6) NOT NULL PRIMARY KEY, city varchar(99)")
    assert upsert_one_key(maria, create=create) == [(WINDOW.replace(tzinfo=None), "three")]


def test_a_key_of_two_timestamps_is_kept_with_mariadbs_old_default(maria: MariaDBWorld, setting: Any) -> None:
    setting("explicit_defaults_for_timestamp", "0")
    columns = (("start", "timestamp"), ("end", "timestamp"), ("city", "string"))
    sink = maria.bind(mode="upsert", key=["start", "end"], create=True)
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    types = [TYPES[0], TYPES[0], pyarrow.string()]
    for number, city in enumerate(("one", "two"), 1):
        sink.release([stage(sink, Rows([[(WINDOW, WINDOW, city)]], columns, types=types), number)], number)
    assert maria.rows() == [(WINDOW.replace(tzinfo=None), WINDOW.replace(tzinfo=None), "two")]


def test_an_executor_may_pause_longer_than_wait_timeout(
    maria: MariaDBWorld,
    setting: Any,
) -> None:
    maria.table()
    sink = maria.new()
    setting("wait_timeout", "1")

    class Slow(Rows):
        def batches(self, rows: Any) -> Any:
            for row in rows:
                yield from super().batches([row])
                threading.Event().wait(2.5)

    handle = stage(sink, Slow([rows_of(1)], COLUMNS), 1)
    sink.release([handle], 1)
    assert maria.rows() == rows_of(1)


def test_a_release_may_have_any_number_of_batches(maria: MariaDBWorld, setting: Any) -> None:
    setting("max_allowed_packet", "1048576")
    maria.table()
    sink = maria.new()
    real_handle = staged(sink, 1)
    gone = [{**real_handle, "id": f"{'a' * 60}-{number}-n1"} for number in range(15_000)]
    released = ", ".join(f"('orders', 'lake', '{handle['id']}', 1)" for handle in gone[:7000])
    maria.run(f"INSERT INTO {maria.schema}ckpt_released VALUES {released}")
    released = ", ".join(f"('orders', 'lake', '{handle['id']}', 1)" for handle in gone[7000:])
    maria.run(f"INSERT INTO {maria.schema}ckpt_released VALUES {released}")
    assert sink.release([*gone, real_handle], 2) == {"rows": 2}
