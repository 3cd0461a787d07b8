"""A Delta table that others change, damage and write to concurrently, with table features; without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import Field, PrimitiveType

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.sinks.delta.delta_features import refusal
from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.delta.delta_table import DeltaLakeTable
from airflow_provider_ckpt.sinks.errors import (
    InvalidSinkError,
    OutputSupersededError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    SinkInputError,
    SinkUnavailableError,
    StagedFilesMissingError,
    StagedFileUnusableError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.intents import Intent
from airflow_provider_ckpt.sinks.lake.table import Snapshot
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, crash_points
from tests.lakes.crashing_table import WrappedTable
from tests.lakes.tables import ARROW, COLUMNS, Row, delta, schema_of, stage, table_rows

CONTEXT = SinkContext("orders", "lake")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def foreign(path: Path, *rows: Row) -> None:
    """Append rows as a writer that knows of no job."""
    columns = list(zip(*rows, strict=True))
    write_deltalake(path, pa.table([pa.array(columns[0], pa.int32()), pa.array(columns[1])], ARROW), mode="append")


def wrapped(path: Path, before: Any = None, storage: Any = None, **settings: Any) -> BoundLakeSink:
    sink = DeltaSink(str(path), **settings)
    table = WrappedTable(sink.table(storage or open_storage(path), CONTEXT), storage, before)
    return BoundLakeSink(table, sink.settings, CONTEXT)


# ---- racing


def test_r9_a_concurrent_foreign_commit_repeats_the_release(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    seen: list[int] = []

    def before(number: int) -> None:
        seen.append(number)
        if len(seen) < 3:
            foreign(path, (100 + len(seen), "f"))

    wrapped(path, before).release([handle], 1)
    assert seen == [1, 1, 1]
    assert table_rows(path) == [(1, "a"), (101, "f"), (102, "f")]


def test_r9_a_paused_releaser_with_an_old_table_version_repeats_nothing(path: Path) -> None:
    """The releaser has read the table and pauses before its commit.

    Its successor releases this checkpoint and another.
    """
    sink = delta(path)
    first, second = stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)

    def before(number: int) -> None:
        if number == 1:
            successor = delta(path)
            successor.release([first], 1)
            successor.release([second], 2)

    assert wrapped(path, before).release([first], 1)["rows"] == 0
    assert table_rows(path) == [(1, "a"), (2, "b")]
    assert sink.last_released() == 2
    assert DeltaTable(str(path)).transaction_version("ckpt/orders/lake") == 2


def test_r17_a_commit_with_a_lost_reply_counts(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)

    class Lossy(WrappedTable):
        def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
            super().commit(snapshot, intent, number)
            raise SinkUnavailableError(message="the reply was lost")

    lossy = Lossy(DeltaSink(str(path)).table(open_storage(path), CONTEXT), None)
    assert BoundLakeSink(lossy, DeltaSink(str(path)).settings, CONTEXT).release([handle], 1)["rows"] == 1
    assert table_rows(path) == [(1, "a")]


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_r9_a_commit_that_conflicts_with_itself_counts(path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that repeats its conditional put gets a conflict with its own first request."""
    settings: Any = {"mode": mode, "key": ["id"] if mode == "upsert" else []}
    foreign(path, (1, "f"))
    sink = delta(path, **settings)
    sink.prepare()
    handle = stage(sink, [(1, "a")], 1)
    verb = "_merge" if mode == "upsert" else "_write"
    real, answered = getattr(DeltaLakeTable, verb), []

    def conflict(*given: Any) -> None:
        real(*given)
        answered.append(given)
        raise CommitFailedError("version 1 is there already")

    monkeypatch.setattr(DeltaLakeTable, verb, conflict)
    assert delta(path, **settings).release([handle], 1)["rows"] == 1
    assert len(answered) == 1
    assert table_rows(path) == ([(1, "a"), (1, "f")] if mode == "append" else [(1, "a")])


def test_r9_a_failed_commit_is_not_a_release(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)

    def before(number: int) -> None:
        raise SinkUnavailableError(message="no route")

    with pytest.raises(SinkUnavailableError, match="no route"):
        wrapped(path, before).release([handle], 1)
    assert sink.last_released() == 0
    assert delta(path).release([handle], 1)["rows"] == 1
    assert table_rows(path) == [(1, "a")]


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_r9_a_release_without_handles_completes_a_crashed_one(path: Path, mode: str) -> None:
    """The intent is complete: the next release makes its commit, whatever handles it gets."""
    settings: Any = {"mode": mode, "key": ["id"] if mode == "upsert" else []}
    storage = CrashingStorage(open_storage(path / "count"), verbs=(verbs := Verbs()))
    counting = wrapped(path / "count", storage=storage, **settings)
    handle = stage(counting, [(1, "a"), (2, "b")], 1)
    staged_with = verbs.count
    counting.release([handle], 1)
    for at, when in crash_points(verbs.count - staged_with):
        place = path / f"{at}-{when}"
        foreign(place, (9, "f"))
        sink = delta(place, **settings)
        sink.prepare()
        handle = stage(sink, [(1, "a"), (2, "b")], 1)
        with pytest.raises(SimulatedCrash):
            wrapped(place, storage=CrashingStorage(open_storage(place), at, when), **settings).release([handle], 1)
        decided = (place / "_ckpt/orders/lake/intents/00000000.json").exists()
        delta(place, **settings).release([] if decided else [handle], 2)
        assert delta(place, **settings).last_released() == (1 if decided else 2)
        assert table_rows(place) == [(1, "a"), (2, "b")] + ([] if mode == "overwrite" else [(9, "f")])


# ---- a table that lost its history


def test_a_deleted_table_is_not_taken_for_a_new_one(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "b")], 2)
    shutil.rmtree(path / "_delta_log")
    for act in (
        lambda bound: bound.last_released(),
        lambda bound: bound.release([waiting], 2),
        lambda bound: stage(bound, [(3, "c")], 3, nonce="m"),
    ):
        for process in (sink, delta(path)):
            with pytest.raises(ReleaseRecordLostError, match=r"lake.*orders"):
                act(process)
    assert not (path / "_delta_log").exists()


def test_a_deleted_and_recreated_table_gets_no_rows(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "b")], 2)
    shutil.rmtree(path / "_delta_log")
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    for handles in ([], [waiting]):
        with pytest.raises(ReleaseRecordLostError, match="Bring the old table back and resume"):
            delta(path).release(handles, 2)
    with pytest.raises(ReleaseRecordLostError, match="Bring the old table back and resume"):
        delta(path).last_released()
    assert table_rows(path) == []


def test_a_batch_staged_before_a_recreation_is_not_released(
    path: Path,
) -> None:
    sink = delta(path)
    waiting = stage(sink, [(1, "a")], 1)
    shutil.rmtree(path / "_delta_log")
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(ReleaseRecordLostError, match="a1-1-n"):
        sink.release([waiting], 1)


def test_a_table_with_lost_commits_is_refused(path: Path) -> None:
    sink = delta(path)
    for batch in (1, 2, 3):
        sink.release([stage(sink, [(batch, "a")], batch)], batch)
    waiting = stage(sink, [(4, "a")], 4)
    for version in (2, 3):
        (path / f"_delta_log/{version:020d}.json").unlink()
    for process in (sink, delta(path)):
        with pytest.raises(ReleaseRecordLostError, match="orders"):
            process.last_released()
        with pytest.raises(ReleaseRecordLostError, match="Bring the newer table back and resume"):
            process.release([waiting], 4)
    assert table_rows(path) == [(1, "a")]


def test_a_lost_commit_is_detected_by_a_later_batch(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "a")], 2)
    (path / f"_delta_log/{1:020d}.json").unlink()
    with pytest.raises(ReleaseRecordLostError, match="a1-2-n"):
        sink.release([waiting], 2)


def test_a_release_log_behind_the_table_is_refused(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    shutil.rmtree(path / "_ckpt/orders/lake/intents")
    with pytest.raises(ReleaseRecordLostError, match="has lost entries"):
        delta(path).last_released()
    with pytest.raises(ReleaseRecordLostError, match="has lost entries"):
        delta(path).release([], 2)


def test_an_unreadable_delta_log_is_not_taken_for_a_missing_table(path: Path) -> None:
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log/junk").write_text("")
    with pytest.raises(SinkUnavailableError, match="could not be"):
        stage(delta(path), [(1, "a")], 1)


def test_old_versions_may_be_cleaned_up(path: Path) -> None:
    """The release is recorded in the table's own checkpoint, too."""
    sink = delta(path)
    for batch in (1, 2, 3):
        sink.release([stage(sink, [(batch, "a")], batch)], batch)
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (path / f"_delta_log/{version:020d}.json").unlink()
    assert delta(path).last_released() == 3
    assert delta(path).release([stage(sink, [(4, "a")], 4)], 4)["rows"] == 1
    assert [row[0] for row in table_rows(path)] == [1, 2, 3, 4]


# ---- files


@pytest.mark.parametrize("at", ["after the intent", "before it"])
def test_a_missing_file_is_never_added_to_the_table(path: Path, at: str) -> None:
    """A table that names a missing file can no longer be read."""
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    handle = stage(sink, [(2, "b")], 2)
    if at == "after the intent":
        storage = CrashingStorage(open_storage(path), 1, "after")
        with pytest.raises(SimulatedCrash):
            wrapped(path, storage=storage).release([handle], 2)
        assert (path / "_ckpt/orders/lake/intents/00000001.json").exists()
    (path / handle["files"][0]["path"]).unlink()
    with pytest.raises(StagedFilesMissingError):
        delta(path).release([handle], 2)
    assert table_rows(path) == [(1, "a")]
    assert delta(path).last_released() == 1


def test_a_missing_file_writes_no_intent(path: Path) -> None:
    """The job can then release a later checkpoint without that batch, if the user gives the batch up."""
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    (path / handle["files"][0]["path"]).unlink()
    with pytest.raises(StagedFilesMissingError):
        sink.release([handle], 1)
    assert not list(path.glob("_ckpt/orders/lake/intents/*"))


def test_r9_a_higher_checkpoint_skips_released_batches(path: Path) -> None:
    sink = delta(path)
    first, second = stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)
    sink.release([first], 1)
    assert delta(path).release([first, second], 2)["rows"] == 1
    assert table_rows(path) == [(1, "a"), (2, "b")]


def test_a_target_file_deleted_before_the_commit_is_linked_again(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    with pytest.raises(SimulatedCrash):  # steps: the intent, the file's second name, then the commit
        wrapped(path, storage=CrashingStorage(open_storage(path), 3, "before")).release([handle], 1)
    [named] = path.glob("part-*.parquet")
    named.unlink()
    assert delta(path).release([handle], 1)["rows"] == 1
    assert table_rows(path) == [(1, "a")]


def test_staged_files_are_deleted_only_after_the_commit(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    staged = path / handle["files"][0]["path"]

    def before(number: int) -> None:
        assert staged.exists()

    wrapped(path, before).release([handle], 1)
    assert not staged.exists()


def test_a_commit_names_the_job_and_files_have_statistics(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(3, "a"), (7, "b")], 1)
    sink.release([handle], 12)
    table = DeltaTable(path)
    commit_info = json.loads(table.history(1)[0]["ckpt"])
    assert commit_info == {"job": "orders", "sink": "lake", "checkpoint": 12, "batches": [handle["id"]]}
    [file] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.id"], file["max.id"], file["null_count.id"]) == (2, 3, 7, 0)
    assert "min.city" not in file or file["min.city"] is None


# ---- modes


def test_an_overwrite_replaces_only_at_the_first_release(path: Path) -> None:
    foreign(path, (9, "f"))
    sink = delta(path, mode="overwrite")
    sink.prepare()
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    assert table_rows(path) == [(1, "a")]
    sink.release([stage(sink, [(2, "b")], 2)], 2)
    assert table_rows(path) == [(1, "a"), (2, "b")]


def test_an_overwrite_without_rows_leaves_an_empty_table(path: Path) -> None:
    foreign(path, (9, "f"))
    sink = delta(path, mode="overwrite")
    sink.prepare()
    assert sink.release([], 1)["rows"] == 0
    assert table_rows(path) == []
    assert delta(path, mode="overwrite").last_released() == 1
    foreign(path, (10, "g"))
    assert delta(path, mode="overwrite").release([], 2)["rows"] == 0
    assert table_rows(path) == [(10, "g")]


def test_a_job_whose_rows_were_replaced_cannot_add_rows(path: Path) -> None:
    old, new = delta(path, "old"), delta(path, "new", mode="overwrite")
    old.release([stage(old, [(1, "a")], 1)], 1)
    waiting = stage(old, [(2, "a")], 2)
    new.prepare()
    new.release([stage(new, [(3, "n")], 1)], 1)
    with pytest.raises(OutputSupersededError, match="old"):
        delta(path, "old").release([waiting], 2)
    assert table_rows(path) == [(3, "n")]


def test_an_older_overwriting_job_does_not_replace_its_successor(path: Path) -> None:
    early, late = delta(path, "early", mode="overwrite"), delta(path, "late", mode="overwrite")
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    early.prepare()
    late.prepare()
    late.release([stage(late, [(2, "l")], 1)], 1)
    for handles in ([], [stage(early, [(1, "e")], 1)]):
        with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
            delta(path, "early", mode="overwrite").release(handles, 1)
    assert table_rows(path) == [(2, "l")]


def test_a_decided_release_is_refused_after_a_replacement(path: Path) -> None:
    old, new = delta(path, "orders"), delta(path, "new", mode="overwrite")
    handle = stage(old, [(1, "a")], 1)
    new.prepare()
    fresh = stage(new, [(3, "n")], 1)

    def before(number: int) -> None:
        delta(path, "new", mode="overwrite").release([fresh], 1)

    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        wrapped(path, before).release([handle], 1)
    assert table_rows(path) == [(3, "n")]


def test_an_upsert_replaces_by_key_and_the_last_row_wins(path: Path) -> None:
    sink = delta(path, mode="upsert", key=["id"])
    sink.release([stage(sink, [(1, "a"), (2, "b")], 1)], 1)
    sink.release([stage(sink, [(2, "c"), (3, "d")], 2), stage(sink, [(3, "e")], 3)], 2)
    assert table_rows(path) == [(1, "a"), (2, "c"), (3, "e")]


def test_a_null_key_is_refused_during_stage(path: Path) -> None:
    sink = delta(path, mode="upsert", key=["city"])
    with pytest.raises(StagedFileUnusableError, match="key column 'city' is null"):
        stage(sink, [(1, None)], 1)


# ---- refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (schema_of(id="integer"), "column 'city' that the rows lack"),
        (schema_of(id="integer", city="string", more="string"), "no column 'more'"),
        (schema_of(id="long", city="string"), "'id' is of type long, and integer in the table"),
        (schema_of(id="integer", City="string"), "'City' is called 'city'"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_refused_before_stage(path: Path, given: str, message: str) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(TargetRefusedError, match=message):
        stage(delta(path), [(1, "a")], 1, schema=given)
    assert not list(path.glob("_ckpt/*/*/staging/*"))
    with pytest.raises(TargetRefusedError, match=message):
        delta(path).check_rows(SinkInput("lake", tuple((f["name"], f["type"]) for f in json.loads(given)["fields"])))


def test_nullable_rows_are_refused_for_a_not_null_column(path: Path) -> None:
    DeltaTable.create(path, Schema([Field("id", PrimitiveType("integer"), nullable=False)]))
    given = SinkInput("lake", (("id", "integer"),))
    with pytest.raises(TargetRefusedError, match="NOT NULL"):
        delta(path).check_rows(given)
    delta(path).check_rows(SinkInput("lake", (("id", "integer"),), not_null=frozenset({"id"})))


def test_a_table_with_other_partitions_is_refused(path: Path) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW), partition_by=["city"])
    with pytest.raises(TargetRefusedError, match=r"partitioned by \['city'\]"):
        stage(delta(path), [(1, "a")], 1)


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"delta.setTransactionRetentionDuration": "interval 2 days"}, "append", "forget which releases"),
        ({"delta.columnMapping.mode": "name"}, "append", "maps column names"),
        ({"delta.constraints.positive": "id > 0"}, "append", "CHECK constraint"),
        ({"delta.appendOnly": "true"}, "replace", "append-only"),
        ({"delta.enableChangeDataFeed": "true"}, "upsert", "change data feed"),
        ({"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}, "append", None),
    ],
)
def test_unsupported_table_properties_are_refused(settings: dict[str, str], change: Any, message: str | None) -> None:
    reason = refusal(7, [], settings, COLUMNS, change)
    assert reason is None if message is None else message in str(reason)


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "v2Checkpoint", "checkConstraints", "newOne"])
def test_an_unknown_table_feature_is_refused(feature: str) -> None:
    assert feature in str(refusal(7, ["appendOnly", feature], {}, COLUMNS, "append"))
    assert refusal(7, ["appendOnly", "invariants", "timestampNtz"], {}, COLUMNS, "append") is None


@pytest.mark.parametrize("key", ["delta.generationExpression", "delta.invariants", "delta.identity.start"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_with_conditions_is_refused(key: str, nested: bool) -> None:
    field: dict[str, Any] = {"name": "x", "type": "long", "nullable": True, "metadata": {key: "y"}}
    if nested:
        inner = {"type": "array", "elementType": {"type": "struct", "fields": [field]}, "containsNull": True}
        field = {"name": "outer", "type": inner, "nullable": True, "metadata": {"comment": "harmless"}}
    reason = refusal(2, [], {}, json.dumps({"type": "struct", "fields": [field]}), "append")
    assert "'x'" in str(reason)


def test_an_unsuitably_changed_table_is_refused_until_it_is_corrected(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    DeltaTable(path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ReleaseRefusedError, match=r"Checkpoint 4 of sink lake of job 'orders'.*CHECK constraint"):
        delta(path).release([handle], 4)
    assert not list(path.glob("_ckpt/orders/lake/intents/*"))
    DeltaTable(path).alter.drop_constraint("positive")
    table = DeltaTable(path)
    if refused := refusal(
        table.protocol().min_writer_version, table.protocol().writer_features or [], {}, COLUMNS, "append"
    ):
        assert "checkConstraints" in refused  # the delta library keeps the feature
        return
    assert delta(path).release([handle], 4)["rows"] == 1


def test_a_column_added_after_stage_is_null_in_the_rows(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    DeltaTable(path).alter.add_columns([Field("more", PrimitiveType("long"))])
    assert delta(path).release([handle], 1)["rows"] == 1
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"id": 1, "city": "a", "more": None}]


def test_a_table_change_after_the_intent_is_refused(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)

    def before(number: int) -> None:
        table = DeltaTable(path)
        if "delta.setTransactionRetentionDuration" not in table.metadata().configuration:
            table.alter.set_table_properties(
                {"delta.setTransactionRetentionDuration": "interval 2 days"}, raise_if_not_exists=False
            )

    with pytest.raises(ReleaseRefusedError, match="Checkpoint 1 of sink lake"):
        wrapped(path, before).release([handle], 1)
    assert table_rows(path) == []


def test_a_new_job_with_an_unfinished_release_of_its_id_is_refused(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    with pytest.raises(SimulatedCrash):
        wrapped(path, storage=CrashingStorage(open_storage(path), 1, "after")).release([handle], 1)
    with pytest.raises(TargetRefusedError, match="a job of this id has begun a release"):
        delta(path).check_target()


def test_update_and_complete_modes_need_an_upsert() -> None:
    given = SinkInput("lake", (("id", "integer"), ("city", "string")), "update")
    with pytest.raises(SinkInputError, match="mode='upsert'"):
        DeltaSink("/t").check_input(given)
    DeltaSink("/t", mode="upsert", key=["id"]).check_input(given)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "merge"}, "mode='merge'"),
        ({"mode": "upsert"}, "key=\\[\\]"),
        ({"key": ["id"]}, "mode='upsert'"),
        ({"mode": "upsert", "key": ["id"], "partition_by": ["city"]}, "cannot be combined"),
        ({"partition_by": "city"}, "is a string"),
        ({"partition_by": None}, "is no list"),
        ({"mode": "upsert", "key": {"id"}}, "is no list"),
        ({"options": None}, "type NoneType"),
        ({"options": {1: "x"}}, "no name of an option"),
        ({"delta_options": [1]}, "type list"),
        ({"storage_options": [1]}, "is no dict of options"),
        ({"delta_options": {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}}, "both succeed"),
        ({"options": {"parquet.encryption.footer.key": "k"}}, "cannot be set"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        DeltaSink("/t", **settings).validate()


@pytest.mark.parametrize(("name", "kind"), [("key", "double"), ("key", "nothing")])
def test_invalid_keys_and_types_are_refused(name: str, kind: str) -> None:
    given = SinkInput("lake", (("id", kind), ("city", "string")))
    with pytest.raises(InvalidInputError):
        DeltaSink("/t", mode="upsert", key=["id" if kind == "double" else "other"]).check_input(given)


def test_types_unknown_to_delta_are_refused() -> None:
    for kind in ("variant", "interval day", "void", "time(6)"):
        with pytest.raises(SinkInputError):
            DeltaSink("/t").check_input(SinkInput("lake", (("id", kind), ("city", "string"))))
    with pytest.raises(InvalidSinkError, match="partition_by"):
        DeltaSink("/t", partition_by=["at"]).check_input(SinkInput("lake", (("id", "long"), ("at", "timestamp"))))


@pytest.mark.parametrize("name", ["day=a%2Fb", "a\\b"])
def test_a_path_that_delta_reads_as_another_path_is_refused(tmp_path: Path, name: str) -> None:
    """The sink would create its table in one folder and look for it in another."""
    with pytest.raises(InvalidSinkError, match=r"uri=.*reads as another path"):
        DeltaSink(str(tmp_path / name)).validate()


@pytest.mark.parametrize("name", ["100% of a#b?c [1] ü", "%zz"])
def test_a_path_with_special_characters_is_kept(tmp_path: Path, name: str) -> None:
    sink = delta(tmp_path / name)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    assert table_rows(tmp_path / name) == [(1, "a")]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_partition_column_in_another_case_is_refused() -> None:
    """Spark accepts it, but no reader could read the resulting table, this sink included."""
    with pytest.raises(InvalidSinkError, match=r"partition_by='city'.*is called 'City' in the input of sink lake"):
        DeltaSink("/t", partition_by=["city"]).check_input(SinkInput("lake", (("id", "long"), ("City", "string"))))


def test_secrets_are_not_shown(path: Path) -> None:
    sink = DeltaSink("s3://bucket/t", storage_options={"key": "AKIDKEY", "secret": "hushhush"})
    bound = sink.table(open_storage(path), CONTEXT)
    shown = [repr(sink), json.dumps(sink.definition()), repr(sink.spark_folders({})), repr(bound)]
    assert not [text for text in shown if "hushhush" in text or "AKIDKEY" in text]


def test_a_file_sink_refuses_a_delta_table(path: Path) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(InvalidSinkError, match="Delta table"):
        FileSink(str(path), mode="append").bind(CONTEXT).prepare()


def test_sinks_with_different_modes_cannot_share_a_table() -> None:
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", mode="upsert", key=["id"])) == []
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", mode="overwrite")) == ["mode"]
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", partition_by=["id"])) == ["partition_by"]
