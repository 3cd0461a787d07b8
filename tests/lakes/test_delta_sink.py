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


def test_r9_a_foreign_commit_between_the_look_and_the_commit_makes_the_release_look_again(path: Path) -> None:
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


def test_r9_a_releaser_that_wakes_up_with_an_old_version_of_the_table_repeats_nothing(path: Path) -> None:
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


def test_r17_a_commit_whose_reply_was_lost_counts(path: Path) -> None:
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
def test_r9_a_commit_that_is_answered_with_a_conflict_counts_if_it_is_there(
    path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_r9_a_commit_that_failed_is_no_release(path: Path) -> None:
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
def test_r9_a_release_that_died_at_any_step_is_finished_by_one_that_has_no_handle(path: Path, mode: str) -> None:
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


# ---- a table that knows less than it did


def test_a_table_that_was_deleted_is_no_table_without_releases(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "b")], 2)
    shutil.rmtree(path / "_delta_log")
    for act in (
        lambda one: one.last_released(),
        lambda one: one.release([waiting], 2),
        lambda one: stage(one, [(3, "c")], 3, nonce="m"),
    ):
        for process in (sink, delta(path)):
            with pytest.raises(ReleaseRecordLostError, match=r"lake.*orders"):
                act(process)
    assert not (path / "_delta_log").exists()


def test_a_table_that_was_deleted_and_made_again_gets_nothing(path: Path) -> None:
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


def test_a_batch_that_was_staged_for_the_table_before_is_not_released_to_the_one_that_was_made_again(
    path: Path,
) -> None:
    sink = delta(path)
    waiting = stage(sink, [(1, "a")], 1)
    shutil.rmtree(path / "_delta_log")
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(ReleaseRecordLostError, match="a1-1-n"):
        sink.release([waiting], 1)


def test_a_table_that_lost_commits_is_not_taken_for_one_without_releases(path: Path) -> None:
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


def test_a_table_that_lost_one_commit_is_told_by_a_batch_that_has_seen_it(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    waiting = stage(sink, [(2, "a")], 2)
    (path / f"_delta_log/{1:020d}.json").unlink()
    with pytest.raises(ReleaseRecordLostError, match="a1-2-n"):
        sink.release([waiting], 2)


def test_a_release_log_that_knows_less_than_the_table_is_damaged(path: Path) -> None:
    sink = delta(path)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    shutil.rmtree(path / "_ckpt/orders/lake/intents")
    with pytest.raises(ReleaseRecordLostError, match="has lost entries"):
        delta(path).last_released()
    with pytest.raises(ReleaseRecordLostError, match="has lost entries"):
        delta(path).release([], 2)


def test_a_delta_log_that_cannot_be_read_is_no_absent_table(path: Path) -> None:
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
def test_a_file_that_is_gone_never_gets_into_the_table(path: Path, at: str) -> None:
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


def test_nothing_is_decided_on_a_file_that_is_gone(path: Path) -> None:
    """The job can then release a later checkpoint without that batch, if the user gives the batch up."""
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    (path / handle["files"][0]["path"]).unlink()
    with pytest.raises(StagedFilesMissingError):
        sink.release([handle], 1)
    assert not list(path.glob("_ckpt/orders/lake/intents/*"))


def test_r9_a_release_that_covers_what_is_released_already_repeats_nothing(path: Path) -> None:
    sink = delta(path)
    first, second = stage(sink, [(1, "a")], 1), stage(sink, [(2, "b")], 2)
    sink.release([first], 1)
    assert delta(path).release([first, second], 2)["rows"] == 1
    assert table_rows(path) == [(1, "a"), (2, "b")]


def test_a_released_file_that_a_clean_up_took_before_its_commit_is_taken_from_its_staged_one(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    with pytest.raises(SimulatedCrash):  # steps: the intent, the file's second name, then the commit
        wrapped(path, storage=CrashingStorage(open_storage(path), 3, "before")).release([handle], 1)
    [named] = path.glob("part-*.parquet")
    named.unlink()
    assert delta(path).release([handle], 1)["rows"] == 1
    assert table_rows(path) == [(1, "a")]


def test_staged_files_are_deleted_with_their_release_and_not_before(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    staged = path / handle["files"][0]["path"]

    def before(number: int) -> None:
        assert staged.exists()

    wrapped(path, before).release([handle], 1)
    assert not staged.exists()


def test_a_commit_tells_people_job_sink_and_checkpoint_and_files_carry_statistics(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(3, "a"), (7, "b")], 1)
    sink.release([handle], 12)
    table = DeltaTable(path)
    told = json.loads(table.history(1)[0]["ckpt"])
    assert told == {"job": "orders", "sink": "lake", "checkpoint": 12, "batches": [handle["id"]]}
    [file] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.id"], file["max.id"], file["null_count.id"]) == (2, 3, 7, 0)
    assert "min.city" not in file or file["min.city"] is None


# ---- modes


def test_an_overwrite_replaces_with_the_first_release_of_the_job_and_adds_after_it(path: Path) -> None:
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


def test_a_job_whose_rows_were_replaced_adds_nothing_more(path: Path) -> None:
    old, new = delta(path, "old"), delta(path, "new", mode="overwrite")
    old.release([stage(old, [(1, "a")], 1)], 1)
    waiting = stage(old, [(2, "a")], 2)
    new.prepare()
    new.release([stage(new, [(3, "n")], 1)], 1)
    with pytest.raises(OutputSupersededError, match="old"):
        delta(path, "old").release([waiting], 2)
    assert table_rows(path) == [(3, "n")]


def test_an_overwriting_job_that_began_before_its_successor_released_undoes_nothing(path: Path) -> None:
    early, late = delta(path, "early", mode="overwrite"), delta(path, "late", mode="overwrite")
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    early.prepare()
    late.prepare()
    late.release([stage(late, [(2, "l")], 1)], 1)
    for handles in ([], [stage(early, [(1, "e")], 1)]):
        with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
            delta(path, "early", mode="overwrite").release(handles, 1)
    assert table_rows(path) == [(2, "l")]


def test_a_release_that_was_decided_before_another_job_replaced_the_table_is_not_made_after_it(path: Path) -> None:
    old, new = delta(path, "orders"), delta(path, "new", mode="overwrite")
    handle = stage(old, [(1, "a")], 1)
    new.prepare()
    fresh = stage(new, [(3, "n")], 1)

    def before(number: int) -> None:
        delta(path, "new", mode="overwrite").release([fresh], 1)

    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        wrapped(path, before).release([handle], 1)
    assert table_rows(path) == [(3, "n")]


def test_rows_replace_those_with_the_same_key_and_of_several_the_last_one_counts(path: Path) -> None:
    sink = delta(path, mode="upsert", key=["id"])
    sink.release([stage(sink, [(1, "a"), (2, "b")], 1)], 1)
    sink.release([stage(sink, [(2, "c"), (3, "d")], 2), stage(sink, [(3, "e")], 3)], 2)
    assert table_rows(path) == [(1, "a"), (2, "c"), (3, "e")]


def test_a_key_that_is_null_is_refused_before_the_batch_is_published(path: Path) -> None:
    sink = delta(path, mode="upsert", key=["city"])
    with pytest.raises(StagedFileUnusableError, match="key column 'city' is null"):
        stage(sink, [(1, None)], 1)


# ---- what is refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (schema_of(id="integer"), "column 'city' that the rows lack"),
        (schema_of(id="integer", city="string", more="string"), "no column 'more'"),
        (schema_of(id="long", city="string"), "'id' is of type long, and integer in the table"),
        (schema_of(id="integer", City="string"), "'City' is called 'city'"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_refused_before_anything_is_staged(
    path: Path, given: str, said: str
) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(TargetRefusedError, match=said):
        stage(delta(path), [(1, "a")], 1, schema=given)
    assert not list(path.glob("_ckpt/*/*/staging/*"))
    with pytest.raises(TargetRefusedError, match=said):
        delta(path).check_rows(SinkInput("lake", tuple((f["name"], f["type"]) for f in json.loads(given)["fields"])))


def test_rows_that_may_be_null_are_refused_by_a_column_that_may_not(path: Path) -> None:
    DeltaTable.create(path, Schema([Field("id", PrimitiveType("integer"), nullable=False)]))
    given = SinkInput("lake", (("id", "integer"),))
    with pytest.raises(TargetRefusedError, match="NOT NULL"):
        delta(path).check_rows(given)
    delta(path).check_rows(SinkInput("lake", (("id", "integer"),), not_null=frozenset({"id"})))


def test_a_table_that_is_partitioned_otherwise_is_refused(path: Path) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW), partition_by=["city"])
    with pytest.raises(TargetRefusedError, match=r"partitioned by \['city'\]"):
        stage(delta(path), [(1, "a")], 1)


@pytest.mark.parametrize(
    ("settings", "change", "said"),
    [
        ({"delta.setTransactionRetentionDuration": "interval 2 days"}, "append", "forget which releases"),
        ({"delta.columnMapping.mode": "name"}, "append", "maps column names"),
        ({"delta.constraints.positive": "id > 0"}, "append", "CHECK constraint"),
        ({"delta.appendOnly": "true"}, "replace", "append-only"),
        ({"delta.enableChangeDataFeed": "true"}, "upsert", "change data feed"),
        ({"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}, "append", None),
    ],
)
def test_settings_that_a_table_asks_more_with_are_refused_by_name(
    settings: dict[str, str], change: Any, said: str | None
) -> None:
    found = refusal(7, [], settings, COLUMNS, change)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "v2Checkpoint", "checkConstraints", "newOne"])
def test_a_feature_that_is_not_known_is_refused_by_name(feature: str) -> None:
    assert feature in str(refusal(7, ["appendOnly", feature], {}, COLUMNS, "append"))
    assert refusal(7, ["appendOnly", "invariants", "timestampNtz"], {}, COLUMNS, "append") is None


@pytest.mark.parametrize("key", ["delta.generationExpression", "delta.invariants", "delta.identity.start"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_with_conditions_is_refused_by_name(key: str, nested: bool) -> None:
    field: dict[str, Any] = {"name": "x", "type": "long", "nullable": True, "metadata": {key: "y"}}
    if nested:
        inner = {"type": "array", "elementType": {"type": "struct", "fields": [field]}, "containsNull": True}
        field = {"name": "outer", "type": inner, "nullable": True, "metadata": {"comment": "harmless"}}
    found = refusal(2, [], {}, json.dumps({"type": "struct", "fields": [field]}), "append")
    assert "'x'" in str(found)


def test_a_table_that_drifts_after_staging_keeps_the_rows_until_it_is_mended(path: Path) -> None:
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


def test_a_column_that_the_table_got_after_staging_is_null_in_the_rows(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    DeltaTable(path).alter.add_columns([Field("more", PrimitiveType("long"))])
    assert delta(path).release([handle], 1)["rows"] == 1
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"id": 1, "city": "a", "more": None}]


def test_a_drift_between_the_decision_and_the_commit_is_found_too(path: Path) -> None:
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


def test_a_job_of_an_id_that_has_begun_a_release_which_never_came_is_refused(path: Path) -> None:
    sink = delta(path)
    handle = stage(sink, [(1, "a")], 1)
    with pytest.raises(SimulatedCrash):
        wrapped(path, storage=CrashingStorage(open_storage(path), 1, "after")).release([handle], 1)
    with pytest.raises(TargetRefusedError, match="a job of this id has begun a release"):
        delta(path).check_target()


def test_output_that_changes_rows_needs_a_key() -> None:
    given = SinkInput("lake", (("id", "integer"), ("city", "string")), "update")
    with pytest.raises(SinkInputError, match="mode='upsert'"):
        DeltaSink("/t").check_input(given)
    DeltaSink("/t", mode="upsert", key=["id"]).check_input(given)


@pytest.mark.parametrize(
    ("settings", "said"),
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
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSinkError, match=said):
        DeltaSink("/t", **settings).validate()


@pytest.mark.parametrize(("name", "kind"), [("key", "double"), ("key", "nothing")])
def test_keys_and_types_that_a_table_cannot_have_are_refused(name: str, kind: str) -> None:
    given = SinkInput("lake", (("id", kind), ("city", "string")))
    with pytest.raises(InvalidInputError):
        DeltaSink("/t", mode="upsert", key=["id" if kind == "double" else "other"]).check_input(given)


def test_types_that_delta_does_not_know_are_refused() -> None:
    for kind in ("variant", "interval day", "void", "time(6)"):
        with pytest.raises(SinkInputError):
            DeltaSink("/t").check_input(SinkInput("lake", (("id", kind), ("city", "string"))))
    with pytest.raises(InvalidSinkError, match="partition_by"):
        DeltaSink("/t", partition_by=["at"]).check_input(SinkInput("lake", (("id", "long"), ("at", "timestamp"))))


@pytest.mark.parametrize("name", ["day=a%2Fb", "a\\b"])
def test_a_path_that_the_package_takes_for_another_one_is_refused(tmp_path: Path, name: str) -> None:
    """The sink would create its table in one folder and look for it in another."""
    with pytest.raises(InvalidSinkError, match=r"uri=.*reads as another path"):
        DeltaSink(str(tmp_path / name)).validate()


@pytest.mark.parametrize("name", ["100% of a#b?c [1] ü", "%zz"])
def test_other_paths_are_as_they_are_written(tmp_path: Path, name: str) -> None:
    sink = delta(tmp_path / name)
    sink.release([stage(sink, [(1, "a")], 1)], 1)
    assert table_rows(tmp_path / name) == [(1, "a")]
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_partition_in_another_case_than_its_column_is_refused() -> None:
    """Spark accepts it, but no reader could read the resulting table, this sink included."""
    with pytest.raises(InvalidSinkError, match=r"partition_by='city'.*is called 'City' in the input of sink lake"):
        DeltaSink("/t", partition_by=["city"]).check_input(SinkInput("lake", (("id", "long"), ("City", "string"))))


def test_no_secret_is_shown(path: Path) -> None:
    sink = DeltaSink("s3://bucket/t", storage_options={"key": "AKIDKEY", "secret": "hushhush"})
    bound = sink.table(open_storage(path), CONTEXT)
    shown = [repr(sink), json.dumps(sink.definition()), repr(sink.spark_folders({})), repr(bound)]
    assert not [text for text in shown if "hushhush" in text or "AKIDKEY" in text]


def test_a_sink_of_files_does_not_write_into_a_table(path: Path) -> None:
    DeltaTable.create(path, Schema.from_arrow(ARROW))
    with pytest.raises(InvalidSinkError, match="Delta table"):
        FileSink(str(path), mode="append").bind(CONTEXT).prepare()


def test_two_sinks_of_a_job_share_a_table_only_if_none_replaces_the_others_rows() -> None:
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", mode="upsert", key=["id"])) == []
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", mode="overwrite")) == ["mode"]
    assert DeltaSink("/t").folder_conflicts(DeltaSink("/t", partition_by=["id"])) == ["partition_by"]
