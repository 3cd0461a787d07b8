"""Reasons for refusing before anything is written, while a batch is staged, and at a release."""

from __future__ import annotations

import re
import traceback
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_ckpt.sinks.errors import (
    ReleaseRefusedError,
    RowsRefusedError,
    SinkUnavailableError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink
from tests.sinks.databases import COLUMNS, rows_of, stage, stage_request
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.sqlite_world import SQLiteWorld
from tests.sinks.sql.world import Rows, World, frame_of, staged

KEYED = "id int NOT NULL PRIMARY KEY, city text"
UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["id"]}
SECRET = "t0p s3cr3t"


def check(world: World, columns: Any = COLUMNS, **given: Any) -> None:
    bound = world.bind(**given)
    world.sink(**given).check_input(SinkInput("lake", tuple(columns)))
    bound.check_rows(SinkInput("lake", tuple(columns)))


def refused(sink: BoundSqlSink, rows: Rows) -> str:
    with pytest.raises((RowsRefusedError, TargetRefusedError)) as raised:
        sink.stage(rows, stage_request(1))  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert "sink 'lake' of job 'orders'" in text
    assert SECRET not in text, "a row's value"
    return text


# ---- before anything is written


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("id int", {}, "it has no column 'city' (it has id)"),
        ("id int, city text, n int NOT NULL", {}, "its column 'n' is NOT NULL and has no default"),
        ("id int, city blob", {}, "column 'city' is string in the job and blob in the table"),
        ("id double, city text", {}, "column 'id' is integer in the job and double in the table"),
        ("id int, city text", UPSERT, "column 'id' of its key may be NULL"),
        ("id int NOT NULL, city text", UPSERT, "it has no unique index on (id)"),
        ("id int NOT NULL, city varchar(9) NOT NULL, UNIQUE (id, city)", UPSERT, "it has no unique index on (id)"),
    ],
)
def test_an_unsuitable_table_is_refused_before_anything_is_written(
    world: World, table: str, given: dict[str, Any], message: str
) -> None:
    world.table(table)
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        check(world, **given)
    assert message.casefold() in str(raised.value).casefold()
    assert "sink 'lake' of job 'orders'" in str(raised.value)
    assert world.tables() == ["orders"]


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("id int, city text CHARACTER SET latin1", COLUMNS, "'city' has the character set latin1, which cannot hold"),
        ("id int, city text CHARACTER SET utf8mb3", COLUMNS, "has the character set utf8mb3"),
        ("id int unsigned, city text", COLUMNS, "integer in the job and int(10) unsigned in the table"),
        ("id smallint, city text", COLUMNS, "integer in the job and smallint(6) in the table"),
        ("id int, city enum('a')", COLUMNS, "string in the job and enum('a') in the table"),
        ("id int, city char(9)", COLUMNS, "string in the job and char(9) in the table"),
        ("id int AS (1) STORED, city text", COLUMNS, "MySQL itself sets the values of column 'id'"),
        ("at datetime", (("at", "timestamp_ntz"),), "timestamp_ntz in the job and datetime in the table"),
        ("at datetime(6)", (("at", "timestamp"),), "timestamp in the job and datetime(6) in the table"),
        ("at timestamp(3) NULL", (("at", "timestamp"),), "timestamp in the job and timestamp(3) in the table"),
        ("n float", (("n", "double"),), "double in the job and float in the table"),
        ("n double(10,2)", (("n", "double"),), "double in the job and double(10,2) in the table"),
        ("n decimal(10,2)", (("n", "decimal(10,3)"),), "decimal(10,3) in the job and decimal(10,2) in the table"),
        ("n decimal(10,2) unsigned", (("n", "decimal(10,2)"),), "and decimal(10,2) unsigned in the table"),
        ("n binary(9)", (("n", "binary"),), "binary in the job and binary(9) in the table"),
    ],
)
def test_mariadb_columns_that_would_change_values_are_refused(
    maria: MariaDBWorld, table: str, columns: Any, message: str
) -> None:
    maria.table(table)
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        check(maria, columns)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("n numeric", (("n", "decimal(10,3)"),), "decimal(10,3) in the job and numeric in the table"),
        ("n text", (("n", "double"),), "double in the job and text in the table"),
        ("at real", (("at", "timestamp"),), "timestamp in the job and real in the table"),
    ],
)
def test_sqlite_columns_that_would_convert_values_are_refused(
    lite: SQLiteWorld, table: str, columns: Any, message: str
) -> None:
    lite.table(table)
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        check(lite, columns)
    assert message in str(raised.value).lower()


def test_a_partial_unique_index_is_not_a_key(maria: MariaDBWorld, lite: SQLiteWorld) -> None:
    maria.table("id varchar(9) NOT NULL, city text, UNIQUE cut (id(3))")
    lite.table("id text NOT NULL, city text")
    lite.run("CREATE UNIQUE INDEX cut ON orders (id) WHERE id > 'a'")
    for world in (maria, lite):
        with pytest.raises(TargetRefusedError, match=r"no unique index on \(id\)"):
            check(world, (("id", "string"), ("city", "string")), **UPSERT)


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_an_engine_without_transactions_is_refused(maria: MariaDBWorld, engine: str) -> None:
    maria.run(f"CREATE TABLE {maria.schema}orders (id int NOT NULL, city varchar(9)) ENGINE={engine}")
    with pytest.raises(TargetRefusedError, match=f"its engine is {engine}"):
        check(maria)
    maria.run(f"ALTER TABLE {maria.schema}orders ENGINE=InnoDB")
    maria.new()
    maria.run(f"ALTER TABLE {maria.schema}ckpt_released ENGINE={engine}")
    message = "the ledger's table ckpt_released has an engine"
    with pytest.raises(TargetRefusedError, match=message):
        check(maria)
    with pytest.raises(TargetRefusedError, match=message):
        maria.bind().prepare()


def test_tables_that_the_sink_creates_are_innodb(maria: MariaDBWorld) -> None:
    maria.table()
    maria.run("SET GLOBAL default_storage_engine = MyISAM")
    try:
        staged(maria.new(), 1)
    finally:
        maria.run("SET GLOBAL default_storage_engine = InnoDB")
    query = "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = %s"
    assert maria.run(query, maria.database) == [("InnoDB",)]


def test_a_view_or_missing_table_is_refused(world: World) -> None:
    world.run(f"CREATE VIEW {world.schema}seen AS SELECT 1 AS id, '' AS city")
    for name, problem in (("seen", "it is a view"), ("absent", "there is no such table")):
        with pytest.raises(TargetRefusedError, match=problem):
            check(world, table=name)
    assert not [name for name in world.tables() if name.startswith("ckpt")]


def test_a_missing_schema_is_refused(maria: MariaDBWorld, lite: SQLiteWorld) -> None:
    maria.table()
    with pytest.raises(TargetRefusedError, match="there is no database 'nowhere'"):
        check(maria, staging_schema="nowhere")
    with pytest.raises(TargetRefusedError, match="has no schema 'shop'"):
        check(lite, table="shop.orders")


def test_a_server_that_can_lose_commits_is_refused(maria: MariaDBWorld) -> None:
    maria.table()
    maria.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        with pytest.raises(TargetRefusedError, match="innodb_flush_log_at_trx_commit = 2"):
            check(maria)
    finally:
        maria.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    check(maria)


def test_a_session_is_strict_whatever_the_servers_sql_mode_is(maria: MariaDBWorld) -> None:
    sink = maria.table("id int NOT NULL AUTO_INCREMENT PRIMARY KEY, city text").new()
    sink.release([stage(sink, Rows([[(0, "a\\'\"\0\n😀 "), (5, "")]]), 1)], 1)
    assert maria.rows() == [(0, "a\\'\"\0\n😀 "), (5, "")]
    with sink._transaction("read_state") as connection:
        mode = connection.exec_driver_sql("SELECT @@sql_mode").scalar_one()
    assert "STRICT_ALL_TABLES" in mode
    assert "ANSI_QUOTES" not in mode


def test_missing_rights_are_refused_before_anything_is_written(maria: MariaDBWorld) -> None:
    maria.table(KEYED)
    clerk = f"clerk{maria.database.split()[1]}"
    url = maria.url.replace("airflow:", f"{clerk}:")
    maria.run(f"CREATE USER {clerk} IDENTIFIED BY 's3cr3tPW'")
    maria.run(f"GRANT SELECT ON {maria.schema}orders TO {clerk}")
    staging = f"{maria.database} staging"
    maria.run(f"CREATE DATABASE `{staging}`")
    maria.run(f"GRANT ALL ON `{staging}`.* TO {clerk}")
    given: dict[str, Any] = {"url": url, "staging_schema": staging, **UPSERT}
    with pytest.raises(TargetRefusedError, match=r"lacks INSERT, UPDATE on it\. GRANT INSERT, UPDATE"):
        check(maria, **given)
    maria.run(f"GRANT INSERT, UPDATE ON {maria.schema}orders TO {clerk}")
    check(maria, **given)
    sink = maria.new(**given)
    assert sink.release([staged(sink, 1)], 1) == {"rows": 2}
    assert maria.tables() == ["orders"]


def test_a_sqlite_file_is_refused_on_a_cluster(lite: SQLiteWorld) -> None:
    sink = lite.table().new()
    for master in ("yarn", "spark://h:7077", "local-cluster[2,1,1024]"):
        with pytest.raises(TargetRefusedError, match="do not share a file of SQLite"):
            sink.stage(Rows([[(1, "a")]], master=master), stage_request(1))  # type: ignore[arg-type]
    assert lite.staging_tables() == 0


def test_a_deleted_sqlite_file_is_not_taken_for_an_empty_database(lite: SQLiteWorld) -> None:
    sink = lite.table().new()
    lite.path.unlink()
    with pytest.raises(SinkUnavailableError, match=f"there is no file {lite.path}"):
        sink.last_released()
    assert not lite.path.exists()


@pytest.mark.parametrize("create", [True, False])
def test_a_job_does_not_start_without_its_sqlite_file(lite: SQLiteWorld, create: bool) -> None:
    lite.path.unlink()
    with pytest.raises(TargetRefusedError, match=f"there is no file {lite.path}, and the sink makes none.*empty file"):
        check(lite, create=create)
    lite.path.mkdir()
    with pytest.raises(TargetRefusedError, match=f"{lite.path} is no file"):
        check(lite, create=create)
    lite.path.rmdir()
    lite.path.touch()
    check(lite, create=True)


# ---- while a batch is staged


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("id int NOT NULL, city varchar(5)", (1, SECRET), "column city: longer than 5 characters"),
        ("id int NOT NULL, city varchar(5)", (1, "12345  "), "column city: longer than 5 characters"),
        ("id int NOT NULL, city tinytext", (1, SECRET * 30), "column city: longer than 255 bytes"),
        ("id int NOT NULL, city text", (None, SECRET), "column id: NULL, and it is NOT NULL"),
        ("id int, city text CHECK (city <> 't0p s3cr3t')", (1, SECRET), "error 4025"),
        ("id int, city json", (1, SECRET), "error 4025"),
    ],
)
def test_rows_that_mariadb_rejects_are_refused_during_stage(
    maria: MariaDBWorld, table: str, row: tuple[Any, ...], message: str
) -> None:
    sink = maria.table(table).new()
    assert message in refused(sink, Rows([[row]], types=[pa.int32(), pa.string()]))
    assert maria.rows() == []
    sink.collect_garbage([], [])
    assert maria.staging_tables() == 0
    maria.run(f"DROP TABLE {maria.schema}orders")
    maria.table("id int, city longtext")
    sink.release([stage(sink, Rows([[row]], types=[pa.int32(), pa.string()]), 2)], 1)
    assert maria.rows() == [row]


def test_a_null_in_a_key_is_refused_during_stage(world: World) -> None:
    sink = world.table(KEYED).new(**UPSERT)
    assert "column id: NULL" in refused(sink, Rows([[(None, "a")]], types=[pa.int32(), pa.string()]))


def test_a_null_timestamp_does_not_become_the_current_time(maria: MariaDBWorld) -> None:
    """MariaDB would replace NULL by the current time in a TIMESTAMP column that is NOT NULL."""
    columns = (("at", "timestamp"),)
    sink = maria.table("at timestamp(6) NOT NULL").bind()
    sink.prepare()
    assert "column at: NULL" in refused(sink, Rows([[(None,)]], columns, types=[pa.timestamp("us", "UTC")]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_mariadb_refuses_nan_and_infinity(maria: MariaDBWorld, value: float) -> None:
    sink = maria.table("n double").bind()
    sink.prepare()
    assert "column n: " in refused(sink, Rows([[(value,)]], (("n", "double"),)))


def test_sqlite_refuses_nan_but_takes_infinity(lite: SQLiteWorld) -> None:
    columns = (("n", "double"),)
    sink = lite.table("n double").bind()
    sink.prepare()
    assert "column n: NaN" in refused(sink, Rows([[(float("nan"),)]], columns))
    sink.release([stage(sink, Rows([[(float("-inf"),)]], columns), 2)], 1)
    assert lite.rows() == [(float("-inf"),)]


@pytest.mark.parametrize(
    ("change", "message"),
    [("DROP COLUMN city", "it has no column 'city'"), ("ADD COLUMN more int NOT NULL", "'more' is NOT NULL")],
)
def test_an_unsuitably_altered_table_is_refused_until_it_is_corrected(
    maria: MariaDBWorld, change: str, message: str
) -> None:
    sink = maria.table().new()
    assert staged(sink, 1)
    maria.run(f"ALTER TABLE {maria.schema}orders {change}")
    assert message in refused(sink, frame_of(2))
    maria.run(f"DROP TABLE {maria.schema}orders")
    maria.table()
    sink.release([staged(sink, 3)], 1)
    assert maria.rows() == rows_of(3)


@pytest.mark.parametrize(
    ("alter", "mend", "message"),
    [
        ("MODIFY amount decimal(9, 1)", "MODIFY amount decimal(9, 4)", "and decimal(9,1) in the table"),
        ("ENGINE=MyISAM", "ENGINE=InnoDB", "its engine is MyISAM"),
        ("ADD day date NOT NULL", "DROP day", "its column 'day' is NOT NULL"),
    ],
)
def test_a_table_altered_after_stage_gets_no_rows_until_it_is_corrected(
    maria: MariaDBWorld, alter: str, mend: str, message: str
) -> None:
    """Without the check the server would round the values silently."""
    columns = (("id", "integer"), ("amount", "decimal(9,4)"))
    sink = maria.table("id int NOT NULL, amount decimal(9, 4)").bind()
    sink.prepare()
    handle = stage(sink, Rows([[(1, Decimal("1.2345"))]], columns), 1)
    maria.run(f"ALTER TABLE {maria.schema}orders {alter}")
    with pytest.raises(ReleaseRefusedError, match=re.escape(message)):
        sink.release([handle], 1)
    assert maria.rows() == []
    maria.run(f"ALTER TABLE {maria.schema}orders {mend}")
    assert sink.release([handle], 1) == {"rows": 1}
    assert maria.rows() == [(1, Decimal("1.2345"))]


def test_a_table_recreated_with_another_affinity_gets_no_rows(lite: SQLiteWorld) -> None:
    """Without the check SQLite would store '0010' as 10."""
    sink = lite.table("id int, city text").new()
    handle = stage(sink, Rows([[(1, "0010")]]), 1)
    lite.run("DROP TABLE orders")
    lite.table("id int, city int")
    with pytest.raises(ReleaseRefusedError, match="column 'city' is string in the job and INT in the table"):
        sink.release([handle], 1)
    lite.run("DROP TABLE orders")
    lite.table("id int, city text")
    assert sink.release([handle], 1) == {"rows": 1}
    assert lite.rows() == [(1, "0010")]


def test_a_release_to_a_view_that_replaced_the_table_is_refused(maria: MariaDBWorld) -> None:
    """Rows could pass through the view into a table that no reader expects them in."""
    sink = maria.table().new()
    handle = staged(sink, 1)
    kept = f"{maria.schema}kept"
    maria.run(f"RENAME TABLE {maria.schema}orders TO {kept}")
    maria.run(f"CREATE VIEW {maria.schema}orders AS SELECT * FROM {kept} WHERE id < 0")
    with pytest.raises(ReleaseRefusedError, match="it is a view"):
        sink.release([handle], 1)
    assert maria.rows("kept") == []


def test_inserts_fit_max_allowed_packet_and_a_larger_row_is_refused(maria: MariaDBWorld) -> None:
    sink = maria.table("id int NOT NULL, city longtext").new()
    maria.run("SET GLOBAL max_allowed_packet = 20480")
    try:
        rows = [(number, "x" * 1000) for number in range(200)]
        sink.release([stage(sink, Rows([rows]), 1)], 1)
        assert maria.rows() == rows
        assert "a row of 30" in refused(sink, Rows([[(1, SECRET * 3000)]]))
    finally:
        maria.run("SET GLOBAL max_allowed_packet = 16777216")


# ---- at a release


def test_a_violated_constraint_fails_the_release_without_showing_values(world: World) -> None:
    sink = world.table("id int NOT NULL, city varchar(50) NOT NULL, UNIQUE (city)").new()
    sink.release([stage(sink, Rows([[(10, SECRET)]]), 1)], 1)
    handle = stage(sink, Rows([[(10, SECRET), (99, "new")]]), 2)
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as raised:
        sink.release([handle], 2)
    text = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert ("error 1062, IntegrityError, city" in text) or ("UNIQUE constraint failed: orders.city" in text)
    assert "Checkpoint 2 of sink lake of job 'orders'" in text
    assert SECRET not in text
    assert (len(world.rows()), world.staged(), sink.last_released()) == (1, [handle["id"]], 1)
    world.run(f"DELETE FROM {world.schema}orders WHERE id = 10")
    assert sink.release([handle], 2) == {"rows": 2}


@pytest.mark.parametrize("clause", ["REPLACE", "IGNORE"])
def test_an_sqlite_conflict_clause_does_not_hide_a_violation(lite: SQLiteWorld, clause: str) -> None:
    sink = lite.table(f"id int NOT NULL UNIQUE ON CONFLICT {clause}, city text").new()
    lite.put((10, "of somebody else"))
    with pytest.raises(ReleaseRefusedError, match="UNIQUE constraint failed"):
        sink.release([staged(sink, 1)], 1)
    assert lite.rows() == [(10, "of somebody else")]


# ---- values and names


def test_all_types_round_trip_in_a_created_table(world: World) -> None:
    utc = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    now = utc.replace(tzinfo=None)
    is_lite = isinstance(world, SQLiteWorld)
    values: list[tuple[Any, Any, Any, Any]] = [
        ("boolean", True, 1, pa.bool_()),
        ("long", -(2**62), -(2**62), pa.int64()),
        ("double", 0.1 + 0.2, 0.1 + 0.2, pa.float64()),
        ("decimal(38,10)", Decimal("-1.0000000001"), Decimal("-1.0000000001"), pa.decimal128(38, 10)),
        ("string", 'a "quoted"\n\\.\n,\\N %s 😀\'  ', 'a "quoted"\n\\.\n,\\N %s 😀\'  ', pa.string()),
        ("string", "", "", pa.string()),
        ("date", date(1969, 12, 31), date(1969, 12, 31), pa.date32()),
        ("timestamp", utc, now, pa.timestamp("us", "Europe/Berlin")),
        ("timestamp_ntz", now, now, pa.timestamp("us")),
        ("binary", b"\x00\xff'\\", b"\x00\xff'\\", pa.binary()),
        ({"type": "struct", "fields": [{"name": "n", "type": "long"}]}, '{"n":1}', '{"n":1}', pa.string()),
    ]
    columns = [(f'c {number} `"', kind) for number, (kind, *_) in enumerate(values)]
    row, nothing = tuple(written[1] for written in values), tuple(None for _ in values)
    sink = world.bind(create=True)
    sink.check_rows(SinkInput("lake", tuple(columns)))
    sink.prepare()
    frame = Rows([[row, nothing]], columns, types=[written[3] for written in values])
    sink.release([stage(sink, frame, 1)], 1)
    expected = [written[2] for written in values]
    if is_lite:
        texts = {6: "1969-12-31", 7: "2026-01-02 03:04:05.678901", 8: "2026-01-02 03:04:05.678901", 3: "-1.0000000001"}
        expected = [texts.get(number, value) for number, value in enumerate(expected)]
    assert sorted(world.run(f"SELECT * FROM {world.schema}orders"), key=lambda read: read[0] is None) == [
        tuple(expected),
        nothing,
    ]


def test_create_makes_a_table_with_the_key(world: World) -> None:
    sink = world.new(create=True, mode="upsert", key=["city"])
    sink.release([stage(sink, Rows([[(1, "a"), (2, "A"), (3, "a")]]), 1)], 1)
    assert world.rows() == [(2, "A"), (3, "a")]


def test_names_are_quoted(world: World, tmp_path: Path) -> None:
    name, column = 'or"d`ers; DROP TABLE x --', "se`le\"ct '"
    columns = (("id", "integer"), (column, "string"))
    sink = world.bind(table='"' + name.replace('"', '""') + '"', create=True, mode="upsert", key=["id"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    for number in (1, 2):
        assert sink.release([stage(sink, Rows([[(1, "x")]], columns), number)], number) == {"rows": 1}
    assert name in world.tables()
    quoted = "`" + name.replace("`", "``") + "`"
    assert world.run(f"SELECT * FROM {world.schema}{quoted}") == [(1, "x")]
