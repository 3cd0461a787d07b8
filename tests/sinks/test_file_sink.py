from __future__ import annotations

import json
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.sinks.errors import (
    ForeignReleaseError,
    InvalidSinkError,
    RowsRefusedError,
    SinkContractError,
    StagedElsewhereError,
    StagedFilesMissingError,
    StagedRowCountError,
    UnknownHandleError,
)
from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.file.file_writer import FileWriter
from airflow_provider_ckpt.sinks.file.manifests import read_manifests, released_files
from airflow_provider_ckpt.sinks.file.staged_files import StagedFiles
from airflow_provider_ckpt.sinks.sink import SinkContext, StageRequest, attempt_of
from airflow_provider_ckpt.spark.task.outputs import counted
from airflow_provider_ckpt.storage.errors import StorageUnsuitableError
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.testing.staging import stage
from tests.support.books import books

pytestmark = pytest.mark.spark

FORMATS = ["parquet", "json", "csv", "orc"]
ODD_VALUES = [
    "plain",
    "two words",
    "a/b",
    "a_b",
    "k=v",
    "100%",
    "%20",
    "ä ö/ß=漢字",
    "x:y[z]{*}?'\"#",
    "_hidden",
    ".dot",
    "..",
    None,
]


def bind(path: Path | str, **settings: Any) -> BoundFileSink:
    sink = FileSink(str(path), **settings).bind(SinkContext("orders", "lake"))
    sink.prepare()
    return sink


def numbers(spark: SparkSession, count: int, slices: int = 1) -> DataFrame:
    return spark.range(0, count, 1, slices)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_keeps_odd_values(spark: SparkSession, tmp_path: Path, kind: str, partitioned: bool) -> None:
    path = tmp_path / "a lake 100% ä=ö"
    rows = list(enumerate(ODD_VALUES))
    partition_by = ["city"] if partitioned else []
    sink = bind(path, format=kind, partition_by=partition_by, options={"header": True})
    for batch in (1, 2):
        # CSV cannot distinguish null from an empty text, so null is a separate value only in other formats.
        frame = spark.createDataFrame(rows, "id int, city string")
        assert sink.release([stage(sink, frame, batch)], batch)["rows"] == len(rows)
    for paths in ([str(path)], released_files(str(path))):
        reader = spark.read.schema("id int, city string").option("header", True).option("basePath", str(path))
        read_rows = reader.format(kind).load(paths).select("id", "city").collect()
        assert sorted((row.id, row.city) for row in read_rows) == sorted(rows * 2, key=lambda row: row[0])


@pytest.mark.parametrize("kind", FORMATS)
def test_only_data_files_are_released_and_keep_their_extension(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sink = bind(tmp_path, format=kind, options={"compression": "gzip" if kind != "orc" else "zlib"})
    handle = stage(sink, numbers(spark, 4, 2), 3)
    sink.release([handle], 1)
    (manifest,) = read_manifests(str(tmp_path))
    extensions = {"parquet": ".gz.parquet", "json": ".json.gz", "csv": ".csv.gz", "orc": ".zlib.orc"}
    batch = handle["id"].rpartition("-")[2]
    assert [file.path for file in manifest.files] == [
        f"part-orders-lake-00000003-{batch}-{number:05d}{extensions[kind]}" for number in range(2)
    ]
    visible = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert visible == {file.path: file.size for file in manifest.files}
    assert manifest.size == sum(visible.values())


def test_files_that_spark_ignores_are_not_released(spark: SparkSession, tmp_path: Path) -> None:
    """Markers of a committer, checksums, leftovers of a task, and empty files are left out."""
    sink = bind(tmp_path, format="csv")
    staged = StagedFiles(sink._folders, sink._context)
    place = staged.place("one")
    for name in ("_SUCCESS", ".part-0.csv.crc", "_temporary/0/part-0.csv", "part-0.csv"):
        sink._books.create(f"{place}/{name}", b"1\n")
    sink._books.create(f"{place}/part-1.csv", b"")
    assert staged.written(place) == [("part-0.csv", 2)]


def test_staged_files_are_synced_before_the_handle_is_returned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []

    def sync(storage: LocalStorage, path: str) -> None:
        synced.append([file for file, _ in storage.child(path).files("") if file.endswith(".parquet")])

    sink = bind(tmp_path)
    monkeypatch.setattr(LocalStorage, "sync", sync)
    handle = stage(sink, numbers(spark, 4, 2), 3)
    assert [len(files) for files in synced] == [len(handle["files"])] == [2]


def test_a_target_is_probed_before_anything_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent releasers depend on a storage that refuses to create a name twice."""

    def probe(storage: LocalStorage) -> None:
        raise StorageUnsuitableError(uri=storage.uri, reason="a name can be taken twice")

    monkeypatch.setattr(LocalStorage, "probe", probe)
    with pytest.raises(StorageUnsuitableError, match="taken twice"):
        bind(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_each_csv_file_has_its_header(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path, format="csv", options={"header": True})
    sink.release([stage(sink, numbers(spark, 4, 2), batch) for batch in (1, 2)], 1)
    files = list(tmp_path.glob("part-*.csv"))
    assert len(files) == 4
    assert {file.read_text().splitlines()[0] for file in files} == {"id"}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("partition_by", [[], ["id"]], ids=["flat", "partitioned"])
def test_an_empty_frame_stages_no_file(spark: SparkSession, tmp_path: Path, kind: str, partition_by: list[str]) -> None:
    sink = bind(tmp_path, format=kind, partition_by=partition_by, options={"header": True})
    frame = spark.createDataFrame([], "id int, city string")
    handle = stage(sink, frame, 1)
    assert (handle["rows"], handle["files"]) == (0, [])
    sink.release([handle], 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_checkpoint_without_rows_writes_no_manifest(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path)
    sink.release([stage(sink, numbers(spark, 2), 1)], 1)
    for checkpoint in range(2, 6):
        sink.release([stage(sink, numbers(spark, 0), checkpoint)], checkpoint)
    assert [manifest.checkpoint for manifest in read_manifests(str(tmp_path))] == [1]
    sink.release([stage(sink, numbers(spark, 2), 6)], 6)
    assert [manifest.checkpoint for manifest in read_manifests(str(tmp_path))] == [1, 6]


def test_a_relative_path_is_made_absolute_when_bound(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = bind("lake")
    monkeypatch.chdir("/")
    sink.release([stage(sink, numbers(spark, 2), 1)], 1)
    assert len(list((tmp_path / "lake").glob("part-*.parquet"))) == 1


def test_batches_of_a_streaming_query_are_staged_in_foreach_batch(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path / "lake")
    handles = []
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n' * (number + 1))
    source = spark.readStream.name("live").schema("id int").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    writer = source.writeStream.foreachBatch(lambda df, batch: handles.append(stage(sink, df, batch)))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "cp")).start()
    query.awaitTermination()
    assert sorted(handle["rows"] for handle in handles) == [1, 2, 3]
    assert sink.release(handles, 1)["rows"] == 6
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 6


def test_complete_mode_appends_all_rows_of_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path)
    sink.release([stage(sink, numbers(spark, 2), 1)], 1)
    sink.release([stage(sink, numbers(spark, 3), 2)], 2)
    assert spark.read.parquet(str(tmp_path)).count() == 5


def test_files_without_rows_in_a_batch_with_rows_are_left_out_of_text_formats(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = bind(tmp_path, format="json")
    handle = stage(sink, numbers(spark, 8, 4).where("id >= 6"), 1)
    assert (handle["rows"], len(handle["files"])) == (2, 1)


# ---- refusals


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"path": ""}, "path"),
        ({"path": "  "}, "path"),
        ({"path": None}, "path"),
        ({"format": "delta"}, "format"),
        ({"mode": "ignore"}, "mode"),
        ({"mode": None}, "mode"),
        ({"partition_by": "city"}, "partition_by"),
        ({"partition_by": None}, "partition_by"),
        ({"partition_by": 3}, "partition_by"),
        ({"partition_by": (name for name in ["city"])}, "partition_by"),
        ({"partition_by": {"city", "day"}}, "partition_by"),
        ({"partition_by": [""]}, "partition_by"),
        ({"partition_by": [".city"]}, "partition_by"),
        ({"partition_by": ["city", "City"]}, "partition_by"),
        ({"options": None}, "options"),
        ({"options": [("header", "true")]}, "options"),
        ({"options": {1: "true"}}, "options"),
        ({"options": {"header": b"true"}}, "options"),
        ({"options": {"path": "/elsewhere"}}, "options"),
        ({"storage_options": "anon"}, "storage_options"),
        ({"options": {"partitionOverwriteMode": "dynamic"}}, "options"),
        ({"options": {"mapreduce.fileoutputcommitter.algorithm.version": "2"}}, "options"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, Any], setting: str) -> None:
    sink = FileSink(**{"path": "/lake", **settings})
    with pytest.raises(InvalidSinkError) as refused:
        sink.validate()
    assert refused.value.data["setting"] == setting
    with pytest.raises(InvalidSinkError):
        sink.bind(SinkContext("orders", "lake"))


def test_a_folder_of_sparks_own_file_sink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(InvalidSinkError, match="_spark_metadata"):
        bind(tmp_path)


@pytest.mark.parametrize(
    ("attempt", "batch_id", "nonce"),
    [
        ("", 1, "n"),
        ("a/b", 1, "n"),
        ("..", 1, "n"),
        ("a", -1, "n"),
        ("a", 1, ""),
        ("a", 1, "n-1"),
        ("a" * 151, 1, "n"),
    ],
)
def test_ambiguous_attempt_names_and_nonces_are_refused(attempt: str, batch_id: int, nonce: str) -> None:
    with pytest.raises(SinkContractError, match="and no dot or dash in front, a nonce at"):
        StageRequest(attempt, batch_id, nonce, counted)


def test_attempt_of_parses_the_attempt_from_an_id() -> None:
    assert attempt_of(StageRequest("a-1-2.b", 3, "9f", counted).id) == "a-1-2.b"
    assert attempt_of("README") is None


def test_a_staged_folder_is_never_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path)
    for expected in (None, Exception):
        frame = numbers(spark, 2)
        request = StageRequest("a", 1, "same", counted)
        if expected is None:
            sink.stage(frame, request)
        else:
            with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
                sink.stage(frame, request)


@pytest.mark.parametrize(("count", "claimed", "partition_by"), [(4, 0, []), (0, 4, ["id"])])
def test_an_impossible_row_count_is_refused(
    spark: SparkSession, tmp_path: Path, count: int, claimed: int, partition_by: list[str]
) -> None:
    sink = bind(tmp_path, format="json", partition_by=partition_by)
    frame = numbers(spark, count, 2).selectExpr("id", "id AS value")
    with pytest.raises(StagedRowCountError):
        sink.stage(frame, StageRequest("a", 1, uuid.uuid4().hex, lambda frame: (frame, lambda: claimed)))


def test_rows_of_parquet_files_are_counted_from_their_footers(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(frame: DataFrame) -> NoReturn:
        raise AssertionError("the rows were counted in flight, too")

    handle = bind(tmp_path).stage(numbers(spark, 7, 3), StageRequest("a", 1, uuid.uuid4().hex, refuse))
    assert (handle["rows"], len(handle["files"])) == (7, 3)


@pytest.mark.parametrize(
    "settings", [{"format": "json"}, {"partition_by": ["id"]}, {"options": {"parquet.encryption.footer.key": ""}}]
)
def test_rows_of_other_files_are_counted_during_the_write(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any]
) -> None:
    frames: list[DataFrame] = []

    def count_in_flight(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
        frames.append(frame)
        return counted(frame)

    frame = numbers(spark, 7, 3).selectExpr("id", "id AS value")
    handle = bind(tmp_path, **settings).stage(frame, StageRequest("a", 1, uuid.uuid4().hex, count_in_flight))
    assert handle["rows"] == 7
    assert len(frames) == 1


def test_a_staged_folder_without_any_file_is_refused(tmp_path: Path) -> None:
    """This happens with a local folder on a cluster. Executors write to their own disks, even for an empty frame."""

    class WrittenElsewhere:
        """Frame whose files the driver cannot see."""

        sparkSession = SimpleNamespace(_jsparkSession=SimpleNamespace(sessionUUID=lambda: "of no session"))
        write = property(lambda self: self)
        format = mode = options = save = lambda self, *_, **__: self

    with pytest.raises(StagedRowCountError):
        bind(tmp_path).stage(WrittenElsewhere(), StageRequest("a", 1, "n", counted))  # type: ignore[arg-type]


def test_the_error_for_deleted_staged_files_names_them(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path)
    handle = stage(sink, numbers(spark, 4, 2), 1)
    (lost, _) = (books(tmp_path) / "orders/lake/staging" / handle["id"]).glob("part-*")
    lost.unlink()
    with pytest.raises(StagedFilesMissingError) as missed:
        sink.release([handle], 1)
    assert missed.value.data["count"] == 1
    assert lost.name in str(missed.value)
    assert "resume with --resume-failed" in str(missed.value)
    assert sink.last_released() == 0


def test_r9_consumed_files_are_not_missed_by_a_zombie(spark: SparkSession, tmp_path: Path) -> None:
    sink, zombie = bind(tmp_path), bind(tmp_path)
    first, empty = stage(sink, numbers(spark, 4, 2), 1), stage(sink, numbers(spark, 0), 2)
    sink.release([first], 1)
    for file in tmp_path.glob("part-*"):
        file.unlink()
    assert zombie.release([first, empty], 2)["files"] == 0
    assert [manifest.checkpoint for manifest in read_manifests(str(tmp_path))] == [1]


def test_a_sink_with_another_path_does_not_release_staged_batches(spark: SparkSession, tmp_path: Path) -> None:
    handle = stage(bind(tmp_path / "old"), numbers(spark, 2), 1)
    with pytest.raises(StagedElsewhereError, match="/old"):
        bind(tmp_path / "new").release([handle], 1)


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "other"}])
def test_handles_of_another_format_are_refused(spark: SparkSession, tmp_path: Path, change: dict[str, Any]) -> None:
    sink = bind(tmp_path)
    handle = {**stage(sink, numbers(spark, 2), 1), **change}
    with pytest.raises(UnknownHandleError):
        sink.release([handle], 1)


def test_secrets_are_neither_in_reprs_nor_handles_nor_files(spark: SparkSession, tmp_path: Path) -> None:
    secret = "hunter2-" + uuid.uuid4().hex
    sink = FileSink(str(tmp_path), options={"note": secret}, storage_options={"secret": secret})
    context = SinkContext("orders", "lake", {"secret": secret})
    bound = sink.bind(context)
    handle = stage(bound, numbers(spark, 2), 1)
    bound.release([handle], 1)
    shown = [repr(sink), repr(context), repr(bound), json.dumps(handle)]
    shown += [path.read_text() for path in tmp_path.rglob("*.json")]
    assert all(secret not in text for text in shown)


def test_long_job_ids_give_valid_and_unique_file_names(spark: SparkSession, tmp_path: Path) -> None:
    names = set()
    for job_id in ("j" * 200, "j" * 199 + "k"):
        sink = FileSink(str(tmp_path), mode="append").bind(SinkContext(job_id, "s" * 100))
        sink.release([stage(sink, numbers(spark, 2), 1, attempt="a" * 150)], 1)
        (manifest,) = read_manifests(str(tmp_path), job_id)
        names.add(manifest.files[0].path.rsplit("-", 3)[0])
    assert len(names) == 2


def test_a_checkpoint_released_without_the_batch_raises_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """If the sink took the other job's release for its own, these rows would never be released."""
    sink = bind(tmp_path / "lake")
    first, second = stage(sink, numbers(spark, 2), 1), stage(sink, numbers(spark, 3), 2)
    sink.release([first], 5)
    for checkpoint in (3, 5):
        with pytest.raises(ForeignReleaseError, match=rf"released checkpoint 5 without batch {second['id']}"):
            sink.release([second], checkpoint)
    assert sink.release([second], 6)["rows"] == 3


def test_overwriting_folders_per_day_show_each_day_once(spark: SparkSession, tmp_path: Path) -> None:
    """The docs recommend this: daily runs, a day processed again, and a day that no longer has rows."""

    def run(job: str, day: str, count: int) -> None:
        sink = FileSink(str(tmp_path / f"day={day}"), mode="overwrite").bind(SinkContext(job, "lake"))
        sink.check_target()
        sink.prepare()
        sink.release([stage(sink, numbers(spark, count), 1)], 1)

    def read() -> dict[str, int]:
        counts = spark.read.parquet(str(tmp_path)).groupBy("day").count().collect()
        return {str(row["day"]): row["count"] for row in counts}

    for number, day in enumerate(("2026-01-01", "2026-01-02", "2026-01-03"), start=1):
        run(f"run-{number}", day, number)
    assert read() == {"2026-01-01": 1, "2026-01-02": 2, "2026-01-03": 3}
    run("run-2~g1", "2026-01-02", 5)
    assert read() == {"2026-01-01": 1, "2026-01-02": 5, "2026-01-03": 3}
    run("run-3~g1", "2026-01-03", 0)
    assert read() == {"2026-01-01": 1, "2026-01-02": 5}
    released = {day: released_files(str(tmp_path / f"day=2026-01-0{day}")) for day in (1, 2, 3)}
    assert {day: spark.read.parquet(*files).count() if files else 0 for day, files in released.items()} == {
        1: 1,
        2: 5,
        3: 0,
    }


@pytest.mark.parametrize("options", [{}, {"NullValue": ""}, {"nullValue": "", "header": True}])
def test_a_null_that_makes_a_blank_csv_line_is_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    sink = bind(tmp_path, format="csv", partition_by=["Day"], options=options)
    rows = spark.createDataFrame([(None, 1), ("x", 1)], "`a ``b` string, day int")
    with pytest.raises(RowsRefusedError, match="its line of CSV is blank"):
        stage(sink, rows, 1)
    kept = stage(sink, spark.createDataFrame([("x", None), ("", 1)], "`a ``b` string, day int"), 2)
    assert sink.release([kept], 1)["rows"] == spark.read.csv(str(tmp_path), header=bool(options.get("header"))).count()


@pytest.mark.parametrize(
    ("written", "options", "message"),
    [
        ("csv", {"sep": ";", "header": "maybe"}, "options 'header'"),
        ("csv", {"compression": "zzz"}, "options 'compression'"),
        ("parquet", {"maxRecordsPerFile": "x"}, "options 'maxRecordsPerFile'"),
        ("orc", {"compression": "zlib", "orc.stripe.size": "x"}, "options 'orc.stripe.size'"),
    ],
)
def test_the_error_for_an_invalid_writer_option_names_it(
    spark: SparkSession, tmp_path: Path, written: Any, options: dict[str, Any], message: str
) -> None:
    """Each retry would fail in the same way."""
    sink = bind(tmp_path, format=written, options=options)
    with pytest.raises(RowsRefusedError, match=message):
        stage(sink, spark.createDataFrame([(1, "a")], "id int, city string"), 1)


def test_an_error_of_the_rows_does_not_blame_the_options(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path, options={"compression": "zstd"})
    with pytest.raises(Exception, match="no such city"):
        stage(sink, spark.sql("SELECT raise_error('no such city') city"), 1)


def test_a_short_storage_failure_does_not_blame_the_options(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage fails for the batch and for the first dry run, then works again."""
    write, failing = FileWriter.write, iter([True, True])

    def written(self: FileWriter, frame: DataFrame, uri: str) -> None:
        if next(failing, False):
            raise OSError("no route to the storage")
        write(self, frame, uri)

    monkeypatch.setattr(FileWriter, "write", written)
    with pytest.raises(OSError, match="no route"):
        stage(bind(tmp_path, options={"compression": "zstd"}), spark.sql("SELECT 1 AS id"), 1)


def test_an_empty_text_that_makes_a_blank_csv_line_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path, format="csv", options={"emptyValue": ""})
    with pytest.raises(RowsRefusedError, match="so that its line of CSV is blank, and"):
        stage(sink, spark.createDataFrame([("",)], "a string"), 1)


_KEPT = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ((None, None), {"sep": "\t"}),
        ((None, None), {"delimiter": r"\t", "header": True}),
        ((None, None), {"sep": " ", "nullValue": " "}),
        ((None, ""), {"sep": "\t", "emptyValue": ""}),
        ((" ", None), {"sep": "\t", **_KEPT}),
        ((" ",), _KEPT),
        ((" ",), {"emptyValue": ""}),
        ((None,), {"nullValue": "\t"}),
    ],
)
def test_a_blank_csv_line_is_refused(
    spark: SparkSession, tmp_path: Path, row: tuple[str | None, ...], options: dict[str, Any]
) -> None:
    sink = bind(tmp_path, format="csv", options=options)
    columns = ", ".join(f"c{number} string" for number, _ in enumerate(row))
    with pytest.raises(RowsRefusedError, match="its line of CSV is blank"):
        stage(sink, spark.createDataFrame([row], columns), 1)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ((None, None), {"sep": "\t", "nullValue": "-"}),
        ((None, ""), {"sep": "\t"}),
        ((None, " "), {"sep": "\t"}),
        ((" ", " "), _KEPT),
        (("\t", None), {"sep": "\t", **_KEPT}),
        ((" ",), {**_KEPT, "quoteAll": True}),
    ],
)
def test_a_csv_line_that_is_not_blank_is_written(
    spark: SparkSession, tmp_path: Path, row: tuple[str | None, ...], options: dict[str, Any]
) -> None:
    sink = bind(tmp_path, format="csv", options=options)
    columns = ", ".join(f"c{number} string" for number, _ in enumerate(row))
    sink.release([stage(sink, spark.createDataFrame([row], columns), 1)], 1)
    assert spark.read.csv(str(tmp_path), schema=columns, sep=options.get("sep", ",")).count() == 1


@pytest.mark.parametrize(("columns", "options"), [("a int", {"nullValue": "-"}), ("a int, b int", {})])
def test_nulls_that_make_no_blank_csv_line_are_written(
    spark: SparkSession, tmp_path: Path, columns: str, options: dict[str, Any]
) -> None:
    sink = bind(tmp_path, format="csv", options=options)
    nothing = (None,) * len(columns.split(","))
    assert sink.release([stage(sink, spark.createDataFrame([nothing, nothing], columns), 1)], 1)["rows"] == 2
    assert spark.read.csv(str(tmp_path)).count() == 2


@pytest.mark.parametrize(
    ("value", "length"),
    [("x" * 300, 305), ("\u00e4/" * 60, 5 + 60 * 5), ("a b (exists=\n" * 30, 5 + 30 * (len("a b (exists%3D") + 3))],
)
def test_the_error_for_a_too_long_partition_value_names_the_column(
    spark: SparkSession, tmp_path: Path, value: str, length: int
) -> None:
    sink = bind(tmp_path, partition_by=["Day", "city"])
    rows = spark.createDataFrame([(1, 1, "ok"), (2, 1, value)], "id int, day int, city string")
    with pytest.raises(RowsRefusedError, match="by which its output is partitioned,") as raised:
        stage(sink, rows, 1)
    text = "".join(traceback.format_exception(raised.value))
    for part in ("sink 'lake' of job 'orders'", "a value in 'city'", f"has {length} bytes", "--resume-failed"):
        assert part in text
    assert value[:200] not in text
    assert len(text) < 3000
    assert not raised.value.retryable
    shortened = rows.withColumn("city", F.expr("left(city, 20)"))
    assert sink.release([stage(sink, shortened, 1)], 1)["rows"] == 2


def test_a_fitting_partition_value_is_written(spark: SparkSession, tmp_path: Path) -> None:
    sink = bind(tmp_path, partition_by=["city"])
    rows = spark.createDataFrame([(1, "x" * 250)], "id int, city string")
    kept = stage(sink, rows, 1)
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as raised:
        stage(sink, rows.withColumn("id", F.expr("raise_error(concat('s3a://in/city=', city, city, '/f'))")), 2)
    assert "too long for the name of a folder" not in str(raised.value)
    assert sink.release([kept], 1)["rows"] == 1
