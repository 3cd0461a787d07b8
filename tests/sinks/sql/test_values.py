"""Staged values read back unchanged, under any column name, whatever other columns the table has."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow
import pytest

from airflow_provider_ckpt.sinks.sink import SinkInput
from tests.sinks.databases import rows_of, stage
from tests.sinks.sql.mariadb_world import MariaDBWorld
from tests.sinks.sql.world import Rows, World, staged

D = decimal.Decimal
UTC = datetime.timezone.utc
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "byte": (pyarrow.int8(), [-128, 127, 0]),
    "short": (pyarrow.int16(), [-32768, 32767]),
    "integer": (pyarrow.int32(), [-(2**31), 2**31 - 1]),
    "long": (pyarrow.int64(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    "double": (
        pyarrow.float64(),
        [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, -1e-7, 1e22, 123456789012345.678],
    ),
    "float": (pyarrow.float32(), [0.10000000149011612, 3.4028234663852886e38, 1.401298464324817e-45, 16777217.0]),
    "decimal(38,18)": (
        pyarrow.decimal128(38, 18),
        [D("12345678901234567890.123456789012345678"), D("-0.000000000000000001")],
    ),
    "decimal(38,0)": (pyarrow.decimal128(38, 0), [D("9" * 38), D("-" + "9" * 38)]),
    "date": (pyarrow.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1582, 10, 10)]),
    "timestamp_ntz": (
        pyarrow.timestamp("us"),
        [
            datetime.datetime.fromisoformat("0001-01-01"),
            datetime.datetime.fromisoformat("9999-12-31T23:59:59.999999"),
            datetime.datetime.fromisoformat("1969-12-31T23:59:59.999999"),
        ],
    ),
    "timestamp": (
        pyarrow.timestamp("us", "America/New_York"),
        [
            datetime.datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
            datetime.datetime(2026, 11, 1, 6, 30, 0, 1, tzinfo=UTC),
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ],
    ),
    "binary": (pyarrow.binary(), [b"", b"\x00\x1a\\'\"%s", bytes(range(250)), b" ", b"a\x00"]),
    "string": (
        pyarrow.string(),
        [
            "",
            " ",
            "a ",
            "\0",
            "'",
            "\\",
            "\\'",
            "%s",
            "%",
            "\x1a",
            "😀",
            "é",
            "\n\r",
            "NULL",
            "1e5",
            " 1",
            "0x10",
            "\ufeff",
        ],
    ),
    "boolean": (pyarrow.bool_(), [True, False]),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("key", [False, True])
def test_values_round_trip(world: World, kind: str, key: bool) -> None:
    if key and kind in ("float", "double", "string"):
        return
    arrow, values = VALUES[kind]
    columns = (("n", "integer"), ("v", kind))
    given: dict[str, Any] = {"mode": "upsert", "key": ["n", "v"]} if key else {}
    sink = world.bind(create=True, **given)
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    rows = list(enumerate([*values, *([] if key else [None])]))
    handle = stage(sink, Rows([rows], columns, types=[pyarrow.int32(), arrow]), 1)
    sink.release([handle], 1)
    read = "v" if kind != "float" or world.kind == "sqlite" else "CAST(v AS double)"
    stored = [row[0] for row in world.run(f"SELECT {read} FROM {world.schema}orders ORDER BY n")]

    def shown(value: Any) -> Any:
        if value is None:
            return None
        if kind == "boolean":
            return int(value)
        if kind == "float":
            return pyarrow.array([value], pyarrow.float32())[0].as_py()
        if isinstance(value, datetime.datetime):
            value = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return value if world.kind == "mysql" else value.isoformat(" ", "microseconds")
        if world.kind == "sqlite" and isinstance(value, datetime.date):
            return value.isoformat()
        if world.kind == "sqlite" and isinstance(value, D):
            return format(value, "f")
        return value

    assert [None if value is None else (D(value) if isinstance(value, D) else value) for value in stored] == [
        shown(value) for _, value in rows
    ]


NAMES = [
    "select",
    "a b",
    "it's",
    'a"b',
    "a`b",
    "a\\b",
    "a:b",
    ":b",
    "é",
    "a(b)",
    "a.b",
    "a?b",
    "{x}",
    "a;--",
    "a[b]",
    "a/*",
    "values",
    "a\tb",
    "ß",
]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("name", NAMES)
def test_tables_and_columns_may_have_unusual_names(world: World, name: str, mode: str) -> None:
    columns = ((name, "integer"), ("v " + name[:3] + "x", "string"))
    table = '"' + name.replace('"', '""') + '"'
    given: dict[str, Any] = {"mode": "upsert", "key": [name]} if mode == "upsert" else {}
    sink = world.bind(table=table, create=True, **given)
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    for number in (1, 2):
        sink = world.bind(table=table, create=True, **given)
        sink.release([stage(sink, Rows([[(number, "x")]], columns), number)], number)
    quoted = "`" + name.replace("`", "``") + "`"
    assert sorted(world.run(f"SELECT * FROM {world.schema}{quoted}")) == [(1, "x"), (2, "x")]


@pytest.mark.parametrize(
    "check", ["city regexp '^[[:alpha:]]'", "city <> ':none'", "city like 'c%'", r"city <> 'a\\:b'"]
)
def test_rows_are_staged_with_unusual_checks(maria: MariaDBWorld, check: str) -> None:
    maria.table(f"id int NOT NULL, city varchar(99), CHECK ({check})")
    sink = maria.new()
    sink.release([staged(sink, 1)], 1)
    assert maria.rows() == rows_of(1)


def test_a_table_with_many_features_gets_rows_in_every_mode(maria: MariaDBWorld) -> None:
    maria.table(
        "id int NOT NULL, city varchar(99) NOT NULL, twice int AS (id * 2) STORED, seen timestamp(6) NOT NULL DEFAULT "
        "current_timestamp(6) ON UPDATE current_timestamp(6), PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3 -- "
    )
    maria.run(f"CREATE TABLE {maria.schema}audit (id int)")
    maria.run(
        f"CREATE TRIGGER {maria.schema}t AFTER INSERT ON {maria.schema}orders FOR EACH ROW "
        f"INSERT INTO {maria.schema}audit VALUES (NEW.id)"
    )
    modes: tuple[tuple[str, dict[str, Any]], ...] = (("append", {}), ("upsert", {"key": ["id"]}), ("replace", {}))
    for mode, given in modes:
        sink = maria.new(mode, mode=mode, **given)
        sink.release([staged(sink, 1 if mode != "append" else 2)], 1)
    assert [row[:3] for row in maria.rows()] == [(id_, city, 2 * id_) for id_, city in rows_of(1)]
