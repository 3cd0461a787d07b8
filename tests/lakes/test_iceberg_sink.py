"""An Iceberg table that others change and write to concurrently, with table settings; without Spark."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType

from airflow_provider_ckpt.sinks.errors import (
    InvalidSinkError,
    OutputSupersededError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    SinkInputError,
    SinkUnavailableError,
    StagedFilesMissingError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.iceberg.iceberg_schema import (
    as_iceberg_columns,
    iceberg_schema,
    promoted,
    required_field,
    spark_columns,
    takes_field_ids,
    with_field_ids,
)
from airflow_provider_ckpt.sinks.iceberg.iceberg_sink import IcebergSink
from airflow_provider_ckpt.sinks.iceberg.partition_fields import PartitionField
from airflow_provider_ckpt.sinks.iceberg.replaced_rows import _filter, replace_rows
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, crash_points
from tests.lakes.crashing_table import WrappedTable
from tests.lakes.tables import ARROW, schema_of, stage
from tests.lakes.warehouse import NAME, Warehouse

CONTEXT = SinkContext("orders", "lake")
PROPERTY = "ckpt.orders.lake.applied"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path, made=True)


def wrapped(warehouse: Warehouse, before: Any = None, storage: Any = None, **settings: Any) -> BoundLakeSink:
    sink = warehouse.sink(**settings)
    return BoundLakeSink(WrappedTable(sink.bound_table(CONTEXT), storage, before), sink.settings, CONTEXT)


# ---- racing


def test_r9_the_library_does_not_retry_a_commit(warehouse: Warehouse) -> None:
    """The library's own retry (four by default) rebases the append and checks no property.

    A zombie would then repeat rows. A library version that reads the number of retries from another place fails here.
    """
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    seen: list[int] = []

    def before(number: int) -> None:
        seen.append(number)
        if len(seen) < 3:
            warehouse.append((100 + len(seen), "f"))

    wrapped(warehouse, before).release([handle], 1)
    assert seen == [1, 1, 1]
    assert warehouse.rows() == [(1, "a"), (101, "f"), (102, "f")]
    assert "commit.retry.num-retries" not in warehouse.table().properties


def test_r9_a_paused_releaser_with_an_old_table_version_repeats_nothing(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    first, second = stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)

    def before(number: int) -> None:
        if number == 1:
            successor = warehouse.bind()
            successor.release([first], 1)
            successor.release([second], 2)

    assert wrapped(warehouse, before).release([first], 1)["rows"] == 0
    assert warehouse.rows() == [(1, "a"), (2, "b")]
    assert warehouse.table().properties[PROPERTY] == "2"


def test_r9_a_commit_without_rows_requires_the_version_that_was_read(warehouse: Warehouse) -> None:
    """A commit that only sets properties has no precondition, so a zombie could set the released number back."""
    sink = warehouse.bind(mode="overwrite")
    sink.prepare()
    first, second = stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)

    def before(number: int) -> None:
        if number == 1:
            successor = warehouse.bind(mode="overwrite")
            successor.release([], 1)
            successor.release([first], 2)
            successor.release([second], 3)

    wrapped(warehouse, before, mode="overwrite").release([], 1)
    assert warehouse.rows() == [(1, "a"), (2, "b")]
    assert warehouse.table().properties[PROPERTY] == "3"


@pytest.mark.parametrize("change", ["add", "rename", "drop", "partition"])
def test_r9_a_schema_change_without_a_snapshot_repeats_the_release(warehouse: Warehouse, change: str) -> None:
    """pyiceberg requires the snapshot only, and would commit columns and partitions without a check."""
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    seen: list[int] = []

    def before(number: int) -> None:
        seen.append(number)
        if len(seen) > 1:
            return
        if change == "partition":
            warehouse.partition_by("city")
            return
        with warehouse.table().update_schema(allow_incompatible_changes=True) as update:
            if change == "add":
                update.add_column("more", StringType())
            elif change == "rename":
                update.rename_column("city", "town")
            else:
                update.delete_column("city")

    if change == "add":
        assert wrapped(warehouse, before).release([handle], 1)["rows"] == 1
        assert seen == [1, 1]
        assert warehouse.table().scan().to_arrow().to_pylist() == [{"id": 1, "city": "a", "more": None}]
        return
    with pytest.raises(ReleaseRefusedError, match="partitioned by" if change == "partition" else "no column 'city'"):
        wrapped(warehouse, before).release([handle], 1)
    assert seen == [1]
    assert warehouse.table().current_snapshot() is None
    assert sorted(warehouse.bind().staged() or {}) == [handle["id"]]


@pytest.mark.parametrize("landed", [True, False])
def test_r17_a_commit_with_an_unknown_result_is_looked_up(
    warehouse: Warehouse, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    commit = SqlCatalog.commit_table

    def unknown(*given: Any) -> Any:
        if landed:
            commit(*given)
        raise CommitStateUnknownException("no reply")

    monkeypatch.setattr(SqlCatalog, "commit_table", unknown)
    if landed:
        assert warehouse.bind().release([handle], 1)["rows"] == 1
    else:
        with pytest.raises(SinkUnavailableError, match="no reply"):
            warehouse.bind().release([handle], 1)
    monkeypatch.undo()
    assert sink.last_released() == (1 if landed else 0)
    assert warehouse.bind().release([handle], 1)["rows"] == 1
    assert warehouse.rows() == [(1, "a")]


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_r9_a_commit_that_conflicts_with_itself_loses_no_files(
    warehouse: Warehouse, mode: str, landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats its request automatically gets a conflict with its own first request.

    pyiceberg deletes the manifests of such a commit, and then no reader can read the table.
    """
    settings: Any = {"mode": mode, "key": ["id"] if mode == "upsert" else []}
    warehouse.append((1, "f"), (9, "f"))
    sink = warehouse.bind(**settings)
    sink.prepare()
    handles = [stage(sink, [(1, "a"), (2, "b")], 1), stage(sink, [(3, "c")], 2)]
    commit, answered = SqlCatalog.commit_table, list[Any]()

    def conflict(*given: Any) -> Any:
        if landed and not answered:
            commit(*given)
        if answered:
            return commit(*given)
        answered.append(given)
        raise CommitFailedException("Requirement failed: branch main has changed")

    monkeypatch.setattr(SqlCatalog, "commit_table", conflict)
    assert warehouse.bind(**settings).release(handles[:1], 1)["rows"] == 2
    wanted = {
        "append": [(1, "a"), (1, "f"), (2, "b"), (9, "f")],
        "overwrite": [(1, "a"), (2, "b")],
        "upsert": [(1, "a"), (2, "b"), (9, "f")],
    }[mode]
    assert warehouse.rows() == wanted
    assert warehouse.bind(**settings).release(handles[1:], 2)["rows"] == 1
    assert warehouse.rows() == sorted([*wanted, (3, "c")])
    assert warehouse.table().properties[PROPERTY] == "2"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_r9_a_release_without_handles_completes_a_crashed_one(tmp_path: Path, mode: str) -> None:
    settings: Any = {"mode": mode, "key": ["id"] if mode == "upsert" else []}
    for at, when in crash_points(4):
        place = tmp_path / f"{at}-{when}"
        place.mkdir()
        warehouse = Warehouse(place, made=True)
        warehouse.append((9, "f"))
        sink = warehouse.bind(**settings)
        sink.prepare()
        handle = stage(sink, [(1, "a"), (2, "b")], 1)
        storage = CrashingStorage(open_storage(warehouse.folder), at, when)
        try:
            wrapped(warehouse, storage=storage, **settings).release([handle], 1)
        except SimulatedCrash:
            pass
        else:
            assert at > 2, "no step of the release was crashed"
        decided = (warehouse.folder / "_ckpt/orders/lake/intents/00000000.json").exists()
        warehouse.bind(**settings).release([] if decided else [handle], 2)
        assert warehouse.bind(**settings).last_released() == (1 if decided else 2)
        assert warehouse.rows() == [(1, "a"), (2, "b")] + ([] if mode == "overwrite" else [(9, "f")])


# ---- a table that lost its history


def test_a_dropped_table_is_not_taken_for_a_new_one(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "b")], 2)
    warehouse.catalog().drop_table(NAME)
    for process in (sink, warehouse.bind()):
        with pytest.raises(ReleaseRecordLostError, match="Bring it back and resume with"):
            process.release([waiting], 2)


def test_a_dropped_and_recreated_table_gets_no_rows(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "b")], 2)
    warehouse.catalog().drop_table(NAME)
    warehouse.catalog().create_table(NAME, ARROW)
    for process in (sink, warehouse.bind()):
        with pytest.raises(ReleaseRecordLostError, match="Bring the old table back and resume"):
            process.release([waiting], 2)
    assert warehouse.rows() == []


def test_a_reset_release_property_is_detected(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    for batch in (1, 2, 3):
        sink.release([stage(sink, [(batch, "a")], batch)], batch)
    with warehouse.table().transaction() as transaction:
        transaction.set_properties({PROPERTY: "1"})
    for process in (sink, warehouse.bind()):
        with pytest.raises(ReleaseRecordLostError, match="Bring the newer table back and resume"):
            process.last_released()
    assert len(warehouse.rows()) == 3


def test_snapshots_may_expire(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    for batch in (1, 2, 3):
        sink.release([stage(sink, [(batch, "a")], batch)], batch)
    ids = [snapshot.snapshot_id for snapshot in warehouse.table().snapshots()][:-1]
    warehouse.table().maintenance.expire_snapshots().by_ids(ids).commit()
    assert len(warehouse.table().snapshots()) == 1
    assert warehouse.bind().last_released() == 3
    assert [row[0] for row in warehouse.rows()] == [1, 2, 3]


def test_a_missing_file_is_never_added_to_the_table(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    (warehouse.folder / handle["files"][0]["path"]).unlink()
    with pytest.raises(StagedFilesMissingError):
        sink.release([handle], 1)
    assert sink.last_released() == 0


def test_a_snapshot_summary_names_job_and_checkpoint(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    sink.release([stage(sink, [(1, "a")], 1)], 12)
    snapshot = warehouse.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["ckpt.job"], snapshot.summary["ckpt.checkpoint"]) == ("orders", "12")


def test_a_clean_up_does_not_delete_released_files(warehouse: Warehouse) -> None:
    """After the release these files belong to the table."""
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    sink.release([handle], 1)
    assert warehouse.bind().staged() == {}
    assert warehouse.bind().collect_garbage(set(), set()) == []
    warehouse.bind().delete_staged([handle["id"]])
    assert warehouse.rows() == [(1, "a")]


# ---- modes


def test_an_overwrite_replaces_only_at_the_first_release(warehouse: Warehouse) -> None:
    warehouse.append((9, "f"))
    sink = warehouse.bind(mode="overwrite")
    sink.prepare()
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    assert warehouse.rows() == [(1, "a")]
    sink.release([stage(sink, [(2, "b")], 2)], 2)
    assert warehouse.rows() == [(1, "a"), (2, "b")]


def test_a_job_whose_rows_were_replaced_cannot_add_rows(warehouse: Warehouse) -> None:
    old, new = warehouse.bind("old"), warehouse.bind("new", mode="overwrite")
    old.release([stage(old, [(1, "a")], 1)], 1)
    waiting = stage(old, [(2, "a")], 2)
    new.prepare()
    new.release([stage(new, [(3, "n")], 1)], 1)
    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        warehouse.bind("old").release([waiting], 2)
    assert warehouse.rows() == [(3, "n")]


def test_an_upsert_replaces_by_key_and_the_last_row_wins(warehouse: Warehouse) -> None:
    sink = warehouse.bind(mode="upsert", key=["id"])
    sink.release([stage(sink, [(1, "a"), (2, "b")], 1)], 1)
    sink.release([stage(sink, [(2, "c"), (3, "d")], 2), stage(sink, [(3, "e")], 3)], 2)
    assert warehouse.rows() == [(1, "a"), (2, "c"), (3, "e")]


def test_an_upsert_replaces_many_rows_by_a_two_column_key(warehouse: Warehouse) -> None:
    """pyiceberg's filter of so many keys crashes the process in Arrow, again at each attempt to release."""
    warehouse.append(*[(number, "a") for number in range(40_000)])
    sink = warehouse.bind(mode="upsert", key=["id", "city"])
    handle = stage(sink, [(number, "b" if number % 2 else "a") for number in range(40_000)], 1)
    assert sink.release([handle], 1)["rows"] == 40_000
    odd = [(number, "b") for number in range(1, 40_000, 2)]
    assert warehouse.rows() == sorted([(number, "a") for number in range(40_000)] + odd)


def test_an_upsert_keeps_files_without_replaced_rows(warehouse: Warehouse) -> None:
    for rows in ([(1, "a"), (5, "a")], [(2, "b"), (4, None)], [(8, "c")]):
        warehouse.append(*rows)
    before = set(warehouse.files())
    sink = warehouse.bind(mode="upsert", key=["id", "city"])
    sink.release([stage(sink, [(2, "b"), (4, "d"), (3, "a"), (7, "e")], 1)], 1)
    stored = warehouse.table().scan().to_arrow().to_pylist()
    rows = [(1, "a"), (2, "b"), (3, "a"), (4, None), (4, "d"), (5, "a"), (7, "e"), (8, "c")]
    assert sorted([(row["id"], row["city"]) for row in stored], key=repr) == sorted(rows, key=repr)
    assert len(before & set(warehouse.files())) == 2


@pytest.mark.parametrize("other_keys", [0, 300])
def test_an_upsert_reads_only_files_that_may_hold_a_key(warehouse: Warehouse, other_keys: int) -> None:
    """A few keys are compared with each file one by one, and many by the least and the greatest one."""
    for number in (1, 5, 9, 5000):
        warehouse.append((number, "a"), (number + 1, "a"))
    files = {name.rpartition("/")[2] for name in warehouse.files()}
    ids = [2, 9, *range(-other_keys, 0)]
    keys = pa.table({"id": pa.array(ids, pa.int32())})
    planned = [task.file for task in warehouse.table().scan(row_filter=_filter(keys)).plan_files()]
    assert len({file.file_path.rpartition("/")[2] for file in planned} & files) == (3 if other_keys else 2)


def test_an_upsert_replaces_rows_in_several_partitions(warehouse: Warehouse) -> None:
    warehouse.append((9, "x"))  # with the partition spec before
    warehouse.partition_by("city")
    warehouse.append(*[(number, city) for number in range(10) for city in ("ab", "cd", None)])
    sink = warehouse.bind(mode="upsert", key=["id"])
    sink.release([stage(sink, [(number, "ef" if number < 8 else "ab") for number in range(10)], 1)], 1)
    assert warehouse.rows() == [(number, "ef") for number in range(8)] + [(8, "ab"), (9, "ab")]


_INSTANT = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.int64(), [1, 2, -(2**63)]),
        (pa.string(), ["", "b", "\U0001f600"]),
        (pa.binary(), [b"", b"\xff", b"\x00"]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-0.01")]),
        (pa.timestamp("us"), [dt.datetime(1969, 12, 31), dt.datetime(1, 1, 1)]),  # noqa: DTZ001 - it has no zone
        (pa.timestamp("us", "UTC"), [_INSTANT, _INSTANT + dt.timedelta(microseconds=1)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("compared", [200, 0], ids=["few", "many"])
def test_an_upsert_matches_keys_of_every_type(
    tmp_path: Path, arrow: Any, values: list[Any], compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_ckpt.sinks.iceberg.replaced_rows._COMPARED", compared)
    warehouse = Warehouse(tmp_path)
    schema = pa.schema([("key", arrow), ("city", pa.string())])
    table = warehouse.catalog().create_table(NAME, schema)
    table.append(pa.table({"key": values, "city": ["old"] * len(values)}, schema))
    rows = pa.table({"key": values[:1], "city": ["new"]}, schema)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as producer:
        replace_rows(producer, table, rows, ["key"])
    table_rows = warehouse.table().scan().to_arrow().to_pylist()
    assert {row["key"]: row["city"] for row in table_rows} == dict.fromkeys(values, "old") | {values[0]: "new"}
    assert len(table_rows) == len(values)


# ---- the table's columns and partitions


def test_a_missing_table_is_created_with_the_columns_of_the_rows(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    sink = warehouse.bind()
    assert sink.last_released() == 0
    assert sink.release([], 1)["rows"] == 0
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    assert spark_columns(warehouse.table().schema()) == (Column("id", "integer"), Column("city", "string"))
    assert warehouse.rows() == [(1, "a")]


def test_columns_that_iceberg_cannot_have_are_refused(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": True, "metadata": {}}]}
    sink = Warehouse(tmp_path).bind()
    sink.check_rows(SinkInput("lake", (("a", inner), ("a.b", "long"))))
    with pytest.raises(TargetRefusedError, match=r"multiple fields for name a\.b.*rename one"):
        sink.prepare()


def test_a_missing_namespace_is_refused(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    sink = IcebergSink("nowhere.orders", catalog=warehouse.properties).bind(CONTEXT)
    with pytest.raises(TargetRefusedError, match="namespace"):
        stage(sink, [(1, "a")], 1)


def test_every_spark_type_round_trips_through_an_iceberg_schema() -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "decimal(10,2)", "nullable": True}]}
    columns = [Column(kind, kind) for kind in ("boolean", "integer", "long", "float", "double", "string", "binary")]
    columns += [Column(kind, kind) for kind in ("date", "timestamp", "timestamp_ntz", "decimal(38,10)")]
    columns += [
        Column("s", inner),
        Column("a", {"type": "array", "elementType": inner, "containsNull": True}),
        Column("m", {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}),
    ]
    assert spark_columns(iceberg_schema(columns)) == tuple(columns)
    assert required_field(columns) is None
    small = Column("a", {"type": "array", "elementType": "short", "containsNull": True})
    assert as_iceberg_columns([small])[0].type["elementType"] == "integer"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (NestedField(1, "id", IntegerType(), required=True), "'id' is required"),
        (NestedField(1, "s", StructType(NestedField(2, "x", LongType(), required=True)), required=False), "'s.x'"),
        (NestedField(1, "l", ListType(2, LongType(), element_required=True), required=False), "'l.elementType'"),
        (
            NestedField(1, "m", MapType(2, StringType(), 3, LongType(), value_required=True), required=False),
            "'m.valueType'",
        ),
    ],
)
def test_a_required_field_is_refused_by_name(tmp_path: Path, field: NestedField, message: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.catalog().create_table(NAME, Schema(field))
    with pytest.raises(TargetRefusedError, match=message):
        warehouse.bind().check_rows(SinkInput("lake", (("id", "integer"),), not_null=frozenset({"id"})))


def test_rows_that_do_not_fit_the_table_are_refused_before_stage(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    uuid = NestedField(2, "city", UUIDType(), required=False)
    warehouse.catalog().create_table(NAME, Schema(NestedField(1, "id", LongType(), required=False), uuid))
    for schema, message in (
        (schema_of(id="integer"), "'id' is of type integer, and long"),
        (schema_of(id="long", city="string"), "'city' is of type string, and uuid"),
        (schema_of(id="long", more="string"), "no column 'more'"),
        (schema_of(id="long"), "'city' that the rows lack"),
    ):
        with pytest.raises(TargetRefusedError, match=message):
            stage(warehouse.bind(), [(1, "a")], 1, schema=schema)
    assert not list(warehouse.folder.glob("_ckpt/*/*/staging/*"))


def test_bucket_partitions_are_refused(warehouse: Warehouse) -> None:
    with warehouse.table().update_spec() as update:
        update.add_field("id", BucketTransform(4), "bucket")
    with pytest.raises(TargetRefusedError, match=r"bucket\[4\]\(id\)"):
        stage(warehouse.bind(), [(1, "a")], 1)


def test_a_partitioned_table_without_statistics_is_refused(warehouse: Warehouse) -> None:
    warehouse.partition_by("city")
    with warehouse.table().transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.city": "counts"})
    with pytest.raises(TargetRefusedError, match="keeps no statistics"):
        stage(warehouse.bind(), [(1, "a")], 1)


@pytest.mark.parametrize(
    ("transform", "kind", "has"),
    [
        ("identity", "double", False),
        ("identity", {"type": "struct", "fields": []}, False),
        ("day", "string", False),
        ("hour", "date", False),
        ("hour", "timestamp", True),
        ("truncate[4]", "decimal(10,2)", False),
        ("truncate[4]", "string", True),
        ("void", "string", False),
    ],
)
def test_partition_transforms_that_spark_supports(transform: str, kind: Any, has: bool) -> None:
    assert (PartitionField("p", "c", transform, kind).expression() is not None) is has


def test_a_changed_partition_spec_refuses_the_release_and_keeps_the_rows(warehouse: Warehouse) -> None:
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    warehouse.partition_by("city")
    with pytest.raises(ReleaseRefusedError, match=r"Checkpoint 3 of sink lake of job 'orders'.*partitioned by"):
        warehouse.bind().release([handle], 3)
    assert warehouse.bind().last_released() == 0
    assert sorted(warehouse.bind().staged() or {}) == [handle["id"]]


_EVERY_MODE = pytest.mark.parametrize(
    "settings", [{}, {"mode": "overwrite"}, {"mode": "upsert", "key": ["id"]}], ids=["append", "overwrite", "upsert"]
)


@_EVERY_MODE
def test_released_rows_follow_a_renamed_column(warehouse: Warehouse, settings: dict[str, Any]) -> None:
    """A reader finds the columns of a file without ids by their names of the past."""
    sink = warehouse.bind(**settings)
    sink.prepare()
    sink.release([stage(sink, [(1, "Oslo")], 1)], 1)
    with warehouse.table().update_schema() as update:
        update.rename_column("city", "town")
    with warehouse.table().update_schema() as update:
        update.add_column("city", StringType())
    assert warehouse.table().scan().to_arrow().to_pylist() == [{"id": 1, "town": "Oslo", "city": None}]


@_EVERY_MODE
def test_values_of_a_dropped_column_do_not_come_back(warehouse: Warehouse, settings: dict[str, Any]) -> None:
    sink = warehouse.bind(**settings)
    sink.prepare()
    sink.release([stage(sink, [(1, "Oslo")], 1)], 1)
    drop_and_add_city(warehouse)
    assert warehouse.rows() == [(1, None)]
    sink.release([stage(sink, [(2, "Bergen")], 2)], 2)
    assert warehouse.rows() == [(1, None), (2, "Bergen")]


@_EVERY_MODE
def test_staged_rows_keep_values_of_a_dropped_and_readded_column(
    warehouse: Warehouse, settings: dict[str, Any]
) -> None:
    """The error of a release asks for the column back, and the column that comes back has another id."""
    sink = warehouse.bind(**settings)
    sink.prepare()
    before = stage(sink, [(1, "Oslo")], 1)
    drop_and_add_city(warehouse)
    after = stage(sink, [(2, "Bergen")], 2)
    assert warehouse.bind(**settings).release([before, after], 1)["rows"] == 2
    assert warehouse.rows() == [(1, "Oslo"), (2, "Bergen")]
    with warehouse.table().update_schema() as update:
        update.rename_column("city", "town")
    assert sorted(warehouse.table().scan().to_arrow()["town"].to_pylist()) == ["Bergen", "Oslo"]


def drop_and_add_city(warehouse: Warehouse) -> None:
    with warehouse.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("city")
    with warehouse.table().update_schema() as update:
        update.add_column("city", StringType())


def test_field_ids_are_not_set_inside_arrays_and_maps() -> None:
    plain = NestedField(1, "id", IntegerType(), required=False)
    for kind in (ListType(2, LongType()), MapType(2, StringType(), 3, LongType())):
        inside = StructType(NestedField(4, "x", kind, required=False))
        for schema in (Schema(plain, NestedField(5, "c", kind)), Schema(plain, NestedField(5, "c", inside))):
            assert not takes_field_ids(schema)
            columns = spark_columns(schema)
            assert with_field_ids(columns, schema) == columns
    struct = StructType(NestedField(3, "x", LongType(), required=False))
    schema = Schema(plain, NestedField(2, "s", struct, required=False))
    [_, column] = with_field_ids(spark_columns(schema), schema)
    assert (column.field_id, column.type["fields"][0]["metadata"]) == (2, {"parquet.field.id": 3})


def test_an_upsert_to_unsupported_partitions_is_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.partition_by("city", transform="truncate[1]")
    monkeypatch.setattr("airflow_provider_ckpt.sinks.iceberg.iceberg_table.find_spec", lambda name: None)
    with pytest.raises(TargetRefusedError, match=r"truncate\[1\]\(city\).*pyiceberg-core"):
        stage(warehouse.bind(mode="upsert", key=["id"]), [(1, "a")], 1)
    warehouse.bind().check_rows(SinkInput("lake", (("id", "integer"), ("city", "string"))))


@_EVERY_MODE
def test_a_column_widened_after_stage_gets_the_rows(warehouse: Warehouse, settings: dict[str, Any]) -> None:
    """Iceberg cannot narrow the column again, so without this the rows could never be released."""
    sink = warehouse.bind(**settings)
    sink.prepare()
    first, second = stage(sink, [(1, "a"), (-7, "b")], 1), stage(sink, [(1, "z")], 2)
    with warehouse.table().update_schema() as update:
        update.update_column("id", field_type=LongType())
    assert warehouse.bind(**settings).release([first], 3)["rows"] == 2
    shown = [(-7, "b"), (1, "a")]
    assert warehouse.rows() == shown
    assert warehouse.table().scan(row_filter="id == -7").to_arrow().num_rows == 1
    warehouse.bind(**settings).release([second], 4)
    kept = shown[:1] if settings.get("mode") == "upsert" else shown
    assert warehouse.rows() == sorted([*kept, (1, "z")])


def test_type_promotions_follow_iceberg() -> None:
    def is_taken(mine: str, its: str) -> bool:
        return promoted([Column("c", mine, True)], [Column("c", its, True)]) == (Column("c", its, True),)

    widened = [("integer", "long"), ("float", "double"), ("decimal(9,2)", "decimal(18,2)")]
    assert all(is_taken(mine, its) for mine, its in widened)
    not_widened = [
        ("long", "integer"),
        ("integer", "double"),
        ("decimal(9,2)", "decimal(18,3)"),
        ("date", "timestamp_ntz"),
    ]
    assert not any(is_taken(mine, its) for mine, its in [*not_widened, ("decimal(18,2)", "decimal(9,2)")])
    assert promoted([Column("c", "integer", True)], []) == (Column("c", "integer", True),)


@_EVERY_MODE
@pytest.mark.parametrize("place", ["inside", "elsewhere", "hashed"])
def test_data_files_are_in_the_tables_data_location(
    warehouse: Warehouse, tmp_path: Path, settings: dict[str, Any], place: str
) -> None:
    """An object store limits requests by prefix, and a clean-up may look for data files in their folder only."""
    folder = {"inside": warehouse.folder / "rows", "elsewhere": tmp_path / "rows", "hashed": warehouse.folder / "data"}
    with warehouse.table().transaction() as transaction:
        if place == "hashed":
            transaction.set_properties({"write.object-storage.enabled": "true"})
        else:
            transaction.set_properties({"write.data.path": f"file://{folder[place]}"})
    sink = warehouse.bind(**settings)
    sink.prepare()
    handles = [stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)]
    assert warehouse.bind(**settings).release(handles, 1)["rows"] == 2
    assert warehouse.rows() == [(1, "a"), (2, "b")]
    names = [file.removeprefix(f"file://{folder[place]}/") for file in warehouse.files()]
    assert len(names) == (1 if settings.get("mode") == "upsert" else 2)
    hashed = r"[01]{4}/[01]{4}/[01]{4}/[01]{8}/"
    assert all(re.fullmatch((hashed if place == "hashed" else "") + r"[^/]+\.parquet", name) for name in names)


# ---- settings and secrets


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": "orders", "catalog": {"type": "sql"}}, "namespace.table"),
        ({"table": "a.b"}, "is missing"),
        ({"table": "a.b", "catalog": {"type": "sql"}, "mode": "errorifexists"}, "is unknown"),
        ({"table": "a.b", "catalog_name": "prod", "storage_options": ["x"]}, "is no dict"),
        # to find the rows to replace, the library would take the name for a field inside another field
        ({"table": "a.b", "catalog_name": "prod", "mode": "upsert", "key": ["a.b"]}, "'a.b' has a dot"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        IcebergSink(**settings).validate()


def test_update_and_complete_modes_need_an_upsert() -> None:
    given = SinkInput("lake", (("id", "integer"),), "complete")
    with pytest.raises(SinkInputError, match="mode='upsert'"):
        IcebergSink("a.b", catalog_name="c").check_input(given)


def test_secrets_of_the_catalog_are_not_shown(tmp_path: Path) -> None:
    uri = "postgresql+psycopg2://keeper:hushhush@127.0.0.1:1/iceberg"
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}", "token": "tokentoken"}
    sink = IcebergSink("lake.orders", catalog=properties, catalog_name="c")
    bound = sink.bind(CONTEXT)
    with pytest.raises(SinkUnavailableError, match="could not be") as raised:
        stage(bound, [(1, "a")], 1)
    shown = [repr(sink), json.dumps(sink.definition()), repr(bound), str(raised.value), repr(raised.value.data)]
    for secret in ("hushhush", "tokentoken"):
        assert not [text for text in shown if secret in text]
    assert raised.value.__cause__ is None


def test_handles_and_intents_have_no_catalog_properties(warehouse: Warehouse) -> None:
    warehouse.properties["token"] = "tokentoken"
    sink = warehouse.bind()
    handle = stage(sink, [(1, "a")], 1)
    sink.release([handle], 1)
    intent = (warehouse.folder / "_ckpt/orders/lake/intents/00000000.json").read_text()
    for text in (json.dumps(handle), intent, warehouse.table().metadata.model_dump_json()):
        assert "tokentoken" not in text
        assert "catalog.db" not in text
