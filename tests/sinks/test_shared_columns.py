"""Sinks that write to one folder, which readers take for one table: their columns are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError, TargetRefusedError
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.folder_columns import ColumnRecord
from airflow_provider_ckpt.sinks.file.shared_columns import refuse_unlike_columns
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.sinks.sink_name import SinkName
from tests.sinks.lake import Lake

ID, SHOP, TEXT_ID = ("id", "long"), ("shop", "string"), ("id", "string")
ITEMS = {"type": "array", "elementType": "long", "containsNull": True}
SURE_ITEMS = {"type": "array", "elementType": "long", "containsNull": False}
GOLDEN = Path(__file__).parents[1] / "golden" / "sink-columns-v1"
Columns = tuple[tuple[str, Any], ...]


def compare(
    form: str, columns: Columns, other_columns: Columns, partition_by: tuple[str, ...] = (), path: str = "/out"
) -> None:
    sinks = [
        SimpleNamespace(uid="a", sink=FileSink("/out", format=form, partition_by=partition_by)),  # type: ignore[arg-type]
        SimpleNamespace(uid="b", sink=FileSink(path, format=form, partition_by=partition_by)),  # type: ignore[arg-type]
    ]
    refuse_unlike_columns(sinks, {"a": SinkInput("a", columns), "b": SinkInput("b", other_columns)})


@pytest.mark.parametrize(
    ("form", "columns", "other_columns", "message"),
    [
        ("csv", (ID, SHOP), (SHOP, ID), "the order is shop, id in sink b and id, shop in sink a"),
        ("csv", (ID, SHOP), (ID,), "only sink a has 'shop'"),
        ("parquet", (ID, SHOP), (TEXT_ID, SHOP), "column 'id' is string in sink b and long in sink a"),
        ("parquet", (ID,), (ID, SHOP), "only sink b has 'shop'"),
        ("orc", (("items", ITEMS),), (("items", "string"),), "column 'items' is string in sink b and array in sink a"),
        ("json", (("x", {"type": "struct", "fields": [{"name": "a", "type": "long"}]}),),
         (("x", {"type": "struct", "fields": [{"name": "a", "type": "string"}]}),), "column 'x' is struct"),
    ],
)  # fmt: skip
def test_sinks_of_one_job_with_other_columns_are_refused(
    form: str, columns: Columns, other_columns: Columns, message: str
) -> None:
    with pytest.raises(TargetRefusedError, match="Give each a folder of its own, or") as refused:
        compare(form, columns, other_columns)
    for part in (message, "Sink b cannot write to /out", "Give each a folder of its own"):
        assert part in str(refused.value)


@pytest.mark.parametrize("path", ["/out/", "file:///out", "/out/../out"])
def test_spellings_of_one_folder_are_recognized(path: str) -> None:
    with pytest.raises(TargetRefusedError, match="Give each a folder of its own, or"):
        compare("parquet", (ID,), (SHOP,), path=path)


def test_equivalent_columns_are_allowed() -> None:
    compare("parquet", (ID, SHOP), (SHOP, ID))
    compare("csv", (ID, SHOP), (ID, SHOP))
    compare("csv", (ID, ("day", "string"), SHOP), (ID, SHOP, ("day", "string")), ("Day",))
    compare("orc", (("items", ITEMS),), (("items", SURE_ITEMS),))
    compare("parquet", (ID,), (SHOP,), path="/other")


# ---- files that are already in the folder


def start(
    lake: Lake, job: str, *columns: tuple[str, Any], form: str = "parquet", mode: str = "append"
) -> Callable[[], None]:
    """Check and prepare a sink of ``job``; return its first release."""
    sink = FileSink(lake.uri, format=form, mode=mode).bind(SinkContext(job, "lake"))  # type: ignore[arg-type]
    sink.check_target()
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    return lambda: discard_counts(sink.release([lake.staged(job, 1, "row")], 1))


def discard_counts(_: object) -> None:
    pass


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def test_a_job_with_other_columns_than_released_rows_is_refused(lake: Lake) -> None:
    start(lake, "monday", ID, SHOP)()
    before = lake.paths()
    with pytest.raises(TargetRefusedError, match=r"job .monday. \(sink lake\) has other columns: column .id."):
        start(lake, "tuesday", TEXT_ID, SHOP)
    with pytest.raises(TargetRefusedError, match="only sink lake has 'more'"):
        start(lake, "tuesday", ID, SHOP, ("more", "long"))
    assert lake.paths() == before
    start(lake, "tuesday", SHOP, ID)()
    assert len(lake.named()) == 2


def test_columns_of_unreleased_or_replaced_jobs_are_ignored(lake: Lake) -> None:
    start(lake, "monday", ID, SHOP)
    start(lake, "tuesday", TEXT_ID)()
    start(lake, "wednesday", SHOP, mode="overwrite")()
    start(lake, "thursday", SHOP)()
    assert len(lake.named()) == 2


def test_a_job_may_add_columns_but_not_change_types(lake: Lake) -> None:
    start(lake, "monday", ID)()
    start(lake, "monday", ID, SHOP)
    with pytest.raises(TargetRefusedError, match="what it has released has other columns: column 'id' is string"):
        start(lake, "monday", TEXT_ID)


def test_csv_columns_are_compared_by_position(lake: Lake) -> None:
    start(lake, "monday", ID, SHOP, form="csv")()
    for job, columns in (("tuesday", (SHOP, ID)), ("monday", (SHOP, ID)), ("monday", (ID, SHOP, ("x", "long")))):
        with pytest.raises(TargetRefusedError, match="Give each a folder of its own, or"):
            start(lake, job, *columns, form="csv")


def test_columns_of_foreign_files_are_compared(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "lake/day=1").mkdir(parents=True)
    parquet.write_table(pa.table({"id": [1]}), tmp_path / "lake/day=1/theirs.parquet")
    with pytest.raises(TargetRefusedError, match=r"file 'day=1/theirs\.parquet' has .*: only sink lake has 'shop'"):
        start(lake, "monday", ID, SHOP, ("day", "string"))
    start(lake, "monday", ID, ("day", "string"))()


def test_types_of_files_written_by_spark_are_compared(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    table = pa.table({"id": [1]}).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema})
    parquet.write_table(table, tmp_path / "lake/theirs.parquet")
    with pytest.raises(TargetRefusedError, match="column 'id' is string in sink lake and long in file"):
        start(lake, "monday", TEXT_ID)
    start(lake, "monday", ID)()


def test_the_golden_column_record_is_read_and_written_unchanged(lake: Lake) -> None:
    golden, name = (GOLDEN / "columns.json").read_bytes(), SinkName("monday", "lake")
    lake.books.replace("monday/lake/columns.json", golden)
    columns = ColumnRecord(lake.books).read(name)
    assert columns == (ID, SHOP, ("items", ITEMS))
    ColumnRecord(lake.books).write(SinkName("tuesday", "lake"), columns)
    assert json.loads(lake.books.read("tuesday/lake/columns.json")) == json.loads(golden)


def test_a_damaged_column_record_is_refused(lake: Lake) -> None:
    start(lake, "monday", ID)()
    lake.books.replace("monday/lake/columns.json", b'{"format": "airflow-provider-ckpt/sink-columns", "version": 1}')
    with pytest.raises(ReleaseRecordLostError, match=r"monday/lake/columns\.json"):
        start(lake, "tuesday", ID)
