"""Modes, keys, the ledger, and reasons for refusing a stage or a release."""

from __future__ import annotations

import json
import threading
import traceback
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.errors import InvalidInputError, TerminalError
from airflow_provider_ckpt.sinks.errors import (
    DamagedHandleError,
    ForeignReleaseError,
    InvalidSinkError,
    OutputSupersededError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    RowsRefusedError,
    SinkInputError,
    StagedDataDamagedError,
    StagedElsewhereError,
    TargetRefusedError,
    UnknownHandleError,
)
from airflow_provider_ckpt.sinks.postgres.address import Address
from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, SinkInput
from tests.sinks.databases import COLUMNS, rows_of, stage, stage_request
from tests.sinks.postgres.world import Rows, World, frame_of, staged

GOLDEN = Path(__file__).parents[2] / "golden" / "postgres-handle-v1.json"
KEYED = "id int PRIMARY KEY, city text"


# ---- modes


def test_an_upsert_keeps_the_last_row_of_each_key(world: World) -> None:
    sink = world.table(KEYED).new(mode="upsert", key=["id"])
    first = stage(sink, Rows([[(1, "a"), (2, "a"), (1, "b")]]), 1)
    second = stage(sink, Rows([[(2, "c"), (3, "c")]]), 2)
    assert sink.release([first, second], 1) == {"rows": 5}
    assert world.rows() == [(1, "b"), (2, "c"), (3, "c")]
    sink.release([stage(sink, Rows([[(3, "d")]]), 3)], 2)
    assert world.rows() == [(1, "b"), (2, "c"), (3, "d")]


def test_r9_a_late_upsert_of_a_zombie_does_not_restore_old_values(world: World) -> None:
    sink = world.table(KEYED).new(mode="upsert", key=["id"])
    old, new = stage(sink, Rows([[(1, "old")]]), 1), stage(sink, Rows([[(1, "new")]]), 2)
    sink.release([old], 1)
    sink.release([new], 2)
    world.bind(mode="upsert", key=["id"]).release([old], 1)
    assert world.rows() == [(1, "new")]


def test_rows_of_only_key_columns_are_inserted_once(world: World) -> None:
    sink = world.table("id int PRIMARY KEY").bind(mode="upsert", key=["id"])
    sink.prepare()
    sink.release([stage(sink, Rows([[(1,), (1,), (2,)]], [("id", "integer")]), 1)], 1)
    assert world.rows() == [(1,), (2,)]


def test_replace_empties_the_table_only_at_the_first_release(world: World) -> None:
    world.table()
    world.run(f'INSERT INTO "{world.schema}".orders VALUES (7, %s)', "of somebody else")
    sink = world.new(mode="replace")
    first = staged(sink, 1)
    assert world.rows() == [(7, "of somebody else")]
    sink.release([first], 1)
    assert world.rows() == rows_of(1)
    world.bind(mode="replace").release([staged(sink, 2)], 2)
    assert world.rows() == rows_of(1, 2)


def test_a_first_release_without_rows_also_replaces(world: World) -> None:
    world.table()
    world.run(f'INSERT INTO "{world.schema}".orders VALUES (7, NULL)')
    sink = world.new(mode="replace")
    assert sink.release([], 1) == {"rows": 0}
    assert (world.rows(), sink.last_released()) == ([], 1)
    world.run(f'INSERT INTO "{world.schema}".orders VALUES (8, NULL)')
    assert sink.release([], 1) == sink.release([], 2) == {"rows": 0}
    assert world.rows() == [(8, None)]


def test_a_replaced_job_is_refused_and_the_error_names_the_replacing_job(world: World) -> None:
    first = world.table().new("monday")
    first.release([staged(first, 1)], 1)
    under_way = staged(first, 2)
    second = world.new("tuesday", mode="replace")
    second.release([staged(second, 3)], 1)
    assert world.rows() == rows_of(3)
    with pytest.raises(OutputSupersededError, match="job 'tuesday' has replaced"):
        first.release([under_way], 2)
    with pytest.raises(OutputSupersededError, match="Sink lake of job 'monday'"):
        world.bind("monday").prepare()
    assert first.release([], 2) == {"rows": 0}
    assert world.rows() == rows_of(3)


def test_a_late_replacing_job_is_refused_but_an_appending_job_is_not(world: World) -> None:
    late, adding = world.table().new("late", mode="replace"), world.new("adding")
    quick = world.new("quick", mode="replace")
    quick.release([staged(quick, 1)], 1)
    with pytest.raises(OutputSupersededError, match="If its rows are the wanted ones, run it"):
        late.release([staged(late, 2)], 1)
    adding.release([staged(adding, 3)], 1)
    assert world.rows() == rows_of(1, 3)


def test_two_sinks_of_one_job_replace_together(world: World) -> None:
    world.table()
    world.run(f'INSERT INTO "{world.schema}".orders VALUES (7, NULL)')
    first, other = world.new(uid="one", mode="replace"), world.new(uid="other", mode="replace")
    first.release([staged(first, 1)], 1)
    other.release([staged(other, 2)], 1)
    assert world.rows() == rows_of(1, 2)


def test_one_of_several_concurrent_replacing_jobs_wins(world: World) -> None:
    world.table()
    jobs = [world.new(f"job-{number}", mode="replace") for number in range(4)]
    handles = [staged(sink, number) for number, sink in enumerate(jobs, 1)]
    start, failed = threading.Barrier(4), []

    def run(number: int) -> None:
        start.wait()
        try:
            jobs[number].release([handles[number]], 1)
        except OutputSupersededError:
            failed.append(number + 1)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = {1, 2, 3, 4} - set(failed)
    assert world.rows() == rows_of(winner)


# ---- the ledger


def test_a_lost_ledger_is_not_taken_for_an_empty_one(world: World) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 1)
    handle = staged(sink, 2)
    world.run(f'DELETE FROM "{world.staging}".ledger')
    with pytest.raises(ReleaseRecordLostError, match="it has no entry"):
        sink.release([handle], 2)
    with pytest.raises(ReleaseRecordLostError, match="while the job runs"):
        staged(sink, 3)
    world.new()
    with pytest.raises(ReleaseRecordLostError, match="was created again after"):
        sink.release([handle], 2)
    world.run(f'DROP SCHEMA "{world.staging}" CASCADE')
    with pytest.raises(ReleaseRecordLostError, match="it has no entry"):
        sink.release([handle], 2)
    assert world.rows() == rows_of(1)


def test_a_ledger_from_an_older_backup_is_refused(world: World) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 1)
    handle = staged(sink, 2)
    world.run(f'UPDATE "{world.staging}".ledger SET last = 0')
    with pytest.raises(ReleaseRecordLostError, match=r"its last release is 0, and was 1 when batch"):
        sink.release([handle], 2)


@pytest.mark.parametrize("remembered", [0, 2])
def test_r9_the_ledger_drops_only_batches_that_no_release_can_repeat(
    world: World, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """Each release repeats the handles of the release before, because the journal may not know that it succeeded."""
    monkeypatch.setattr("airflow_provider_ckpt.sinks.database.participant_release.REMEMBERED", remembered)
    world.table("id int NOT NULL PRIMARY KEY, city text")
    sink = world.new()
    before: list[Handle] = []
    for number in range(1, 12):
        now = [staged(sink, number)]
        assert sink.release([*before, *now], number) == {"rows": 2}
        assert world.bind().release([*before, *now], number) == {"rows": 2}
        before = now
    assert world.rows() == rows_of(*range(1, 12))
    assert sorted(world.released()) == list(range(10 - remembered, 12))


def test_r9_an_unreleased_batch_at_a_lower_checkpoint_means_another_job(world: World) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 5)
    handle = staged(sink, 2)
    with pytest.raises(ForeignReleaseError, match="has released checkpoint 5 without"):
        sink.release([handle], 4)
    assert sink.release([handle], 6) == {"rows": 2}


def test_a_ledger_of_a_later_version_is_refused(world: World) -> None:
    world.table().new()
    world.run(f'UPDATE "{world.staging}".format SET version = 2')
    for act in (lambda: world.bind().prepare(), lambda: world.bind().last_released()):
        with pytest.raises(TerminalError, match="has version 2"):
            act()


def test_deleted_staged_rows_fail_the_release(world: World) -> None:
    sink = world.table().new()
    whole, broken = staged(sink, 1), staged(sink, 2)
    world.run(f'DELETE FROM "{world.staging}".{broken["staged"]} WHERE id = 20')
    with pytest.raises(StagedDataDamagedError, match=r"1 reached the table\. 1 are still staged: something other"):
        sink.release([whole, broken], 1)
    assert (world.rows(), sink.last_released()) == ([], 0)


PARTED = "id int NOT NULL PRIMARY KEY, city text) PARTITION BY RANGE (id"


@pytest.mark.parametrize("on", ["orders", "low"])
@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": ["id"]}, {"mode": "replace"}])
def test_rows_that_a_trigger_skips_fail_the_release(world: World, mode: dict[str, Any], on: str) -> None:
    sink = world.table(PARTED).new(**mode)
    schema = world.schema
    world.run(f'CREATE TABLE "{schema}".low PARTITION OF "{schema}".orders FOR VALUES FROM (0) TO (1000)')
    world.run(
        f"""CREATE FUNCTION "{schema}".picky() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.id = 20 THEN RETURN NULL; END IF; RETURN NEW; END $$"""
    )
    trigger = f'TRIGGER picky BEFORE INSERT ON "{schema}".{on} FOR EACH ROW EXECUTE FUNCTION "{schema}".picky()'
    world.run(f"CREATE {trigger}")
    first, second = staged(sink, 1), staged(sink, 2)
    assert sink.release([first], 1) == {"rows": 2}
    with pytest.raises(StagedDataDamagedError, match=r"1 reached the table\. A trigger of table .* leaves the others"):
        sink.release([second], 2)
    assert (world.rows(), sink.last_released()) == (rows_of(1), 1)
    world.run(f'DROP TRIGGER picky ON "{schema}".{on}')
    assert sink.release([second], 2) == {"rows": 2}
    assert world.rows() == rows_of(1, 2)


def test_rows_lost_to_a_trigger_are_detected_in_a_keys_only_table(world: World) -> None:
    columns = (("id", "integer"), ("nr", "integer"))
    sink = world.table("id int, nr int, PRIMARY KEY (id, nr)").bind(mode="upsert", key=["id", "nr"])
    sink.check_rows(SinkInput("lake", columns))
    sink.prepare()
    schema = world.schema
    world.run(
        f"""CREATE FUNCTION "{schema}".picky() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.nr = 9 THEN RETURN NULL; END IF; RETURN NEW; END $$"""
    )
    world.run(
        f'CREATE TRIGGER picky BEFORE INSERT ON "{schema}".orders FOR EACH ROW EXECUTE FUNCTION "{schema}".picky()'
    )
    assert sink.release([stage(sink, Rows([[(1, 1), (1, 1), (1, 2)]], columns), 1)], 1) == {"rows": 3}
    assert sink.release([stage(sink, Rows([[(1, 2), (1, 3)]], columns), 2)], 2) == {"rows": 2}
    with pytest.raises(StagedDataDamagedError, match="3 rows were staged, and 2 reached the table"):
        sink.release([stage(sink, Rows([[(1, 1), (1, 9)], [(1, 9)]], columns), 3)], 3)
    assert (world.rows(), sink.last_released()) == ([(1, 1), (1, 2), (1, 3)], 2)


def test_a_trigger_may_skip_unchanged_rows(world: World) -> None:
    """PostgreSQL has a trigger that suppresses updates without a change, for consumers of a table's changes."""
    sink = world.table(KEYED).new(mode="upsert", key=["id"])
    sink.release([stage(sink, Rows([[(1, "a"), (2, "b")]]), 1)], 1)
    world.run(
        f'CREATE TRIGGER t BEFORE UPDATE ON "{world.schema}".orders FOR EACH ROW '
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    )
    assert sink.release([stage(sink, Rows([[(1, "a"), (2, "c")]]), 2)], 2) == {"rows": 2}
    assert world.rows() == [(1, "a"), (2, "c")]


def test_a_trigger_may_keep_the_newer_row(world: World) -> None:
    sink = world.table(KEYED).new(mode="upsert", key=["id"])
    sink.release([stage(sink, Rows([[(1, "b"), (2, "b")]]), 1)], 1)
    world.run(
        f"""CREATE FUNCTION "{world.schema}".newer() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.city < OLD.city THEN RETURN NULL; END IF; RETURN NEW; END $$"""
    )
    world.run(
        f'CREATE TRIGGER t BEFORE UPDATE ON "{world.schema}".orders FOR EACH ROW '
        f'EXECUTE FUNCTION "{world.schema}".newer()'
    )
    assert sink.release([stage(sink, Rows([[(1, "a"), (2, "c")]]), 2)], 2) == {"rows": 2}
    assert world.rows() == [(1, "b"), (2, "c")]


def test_a_passing_trigger_does_not_disturb_rows_with_one_key(world: World) -> None:
    sink = world.table("id int NOT NULL PRIMARY KEY, city text").new(mode="upsert", key=["id"])
    world.run(
        f"""CREATE FUNCTION "{world.schema}".passes() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RETURN NEW; END $$"""
    )
    orders = f'"{world.schema}".orders'
    world.run(
        f'CREATE TRIGGER t BEFORE INSERT OR UPDATE ON {orders} FOR EACH ROW EXECUTE FUNCTION "{world.schema}".passes()'
    )
    [first, last] = rows_of(1)
    handle = stage(sink, Rows([[first, last, first], [last]]), 1)
    assert sink.release([handle], 1) == {"rows": 4}
    assert world.rows() == rows_of(1)


def test_a_golden_handle_is_released(world: World) -> None:
    """Logs of waiting jobs hold such handles."""
    sink = world.table().new()
    golden = json.loads(GOLDEN.read_text())
    world.run(f'UPDATE "{world.staging}".ledger SET last = 11')
    [[born]] = world.run(f'SELECT born FROM "{world.staging}".ledger')
    place = f'"{world.staging}".{golden["staged"]}'
    world.run(f"CREATE TABLE {place} (id int, city text, _ckpt_part bigint, _ckpt_row bigint)")
    world.run(f"INSERT INTO {place} VALUES (1, 'a', 100, 0), (2, 'b', 101, 0), (2, 'b', 999, 0)")
    given = {**golden, "ledger": born, "table": f'"{world.schema}".orders'}
    assert sink.release([given], 12) == {"rows": 2}
    assert world.rows() == [(1, "a"), (2, "b")]
    assert staged(sink, 1).keys() == golden.keys()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, UnknownHandleError),
        ({"format": "another"}, UnknownHandleError),
        ({"rows": "two"}, DamagedHandleError),
        ({"parts": None}, DamagedHandleError),
        ({"types": ["integer"]}, DamagedHandleError),
        ({"table": "public.another"}, StagedElsewhereError),
    ],
)
def test_a_modified_handle_releases_nothing(world: World, change: dict[str, Any], error: type[Exception]) -> None:
    sink = world.table().new()
    handle = staged(sink, 1)
    with pytest.raises(error):
        sink.release([{**handle, **change}], 1)
    assert (world.rows(), sink.last_released()) == ([], 0)


# ---- rows that a target does not accept


def refused(sink: BoundPostgresSink, rows: Rows) -> str:
    with pytest.raises((RowsRefusedError, TargetRefusedError)) as raised:
        sink.stage(rows, stage_request(1))  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert "sink 'lake' of job 'orders'" in text
    assert "t0p s3cr3t" not in text, "a row's value"
    return text


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("id int NOT NULL, city varchar(5)", (1, "t0p s3cr3t"), "SQLSTATE 22001, StringDataRightTruncation"),
        ("id int NOT NULL, city text", (None, "t0p s3cr3t"), "SQLSTATE 23502, NotNullViolation, column id"),
        ("id int, city text CHECK (city <> 't0p s3cr3t')", (1, "t0p s3cr3t"), "SQLSTATE 23514, CheckViolation"),
        ("id int, city text", (1, "t0p s3cr3t\0"), "SQLSTATE 22021"),
        ("id int, city uuid", (1, "t0p s3cr3t"), "SQLSTATE 22P02, InvalidTextRepresentation, column city"),
    ],
)
def test_rows_that_the_table_rejects_are_refused_during_stage(
    world: World, table: str, row: tuple[Any, ...], message: str
) -> None:
    sink = world.table(table).new()
    kept = stage(sink, Rows([[(1, None)]]), 1) if "uuid" in table or "CHECK" in table else None
    assert message in refused(sink, Rows([[row]]))
    assert world.rows() == []
    sink.collect_garbage([] if kept is None else [kept["id"]], [])
    world.run(f'DROP TABLE "{world.schema}".orders')
    world.table("id int, city text")
    clean = (row[0], row[1].replace("\0", ""))
    sink.release([stage(sink, Rows([[clean]]), 2)], 1)
    assert world.rows() == [clean]


def test_a_null_in_a_key_is_refused_during_stage(world: World) -> None:
    sink = world.table(KEYED).new(mode="upsert", key=["id"])
    assert "column id" in refused(sink, Rows([[(None, "a")]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP COLUMN city", "it has no column 'city'"),
        ("ALTER COLUMN id TYPE smallint", "column 'id' is integer in the job and smallint in the table"),
        ("ADD COLUMN more int NOT NULL", "'more' is NOT NULL and has no default"),
        ("RENAME TO others", "there is no such table"),
    ],
)
def test_an_unsuitably_altered_table_is_refused_until_it_is_corrected(world: World, change: str, message: str) -> None:
    sink = world.table().new()
    assert staged(sink, 1)
    world.run(f'ALTER TABLE "{world.schema}".orders {change}')
    assert message in refused(sink, frame_of(2))
    world.run(f'DROP TABLE "{world.schema}".{"others" if "others" in change else "orders"}')
    world.table()
    sink.release([staged(sink, 3)], 1)
    assert world.rows() == rows_of(3)


@pytest.mark.parametrize(
    ("alter", "mend", "message"),
    [
        (
            "ALTER {orders} ALTER city TYPE name",
            "ALTER {orders} ALTER city TYPE text",
            "column 'city' is string in the",
        ),
        (
            "ALTER {orders} RENAME TO kept; CREATE VIEW {shop}.orders AS SELECT * FROM {shop}.kept WHERE id < 0",
            "DROP VIEW {shop}.orders; ALTER TABLE {shop}.kept RENAME TO orders",
            "it is a view",
        ),
        ("ALTER {orders} SET UNLOGGED", "ALTER {orders} SET LOGGED", "UNLOGGED"),
        ("ALTER {orders} ADD day date NOT NULL", "ALTER {orders} DROP day", "its column 'day' is NOT NULL"),
    ],
)
def test_a_table_altered_after_stage_gets_no_rows_until_it_is_corrected(
    world: World, alter: str, mend: str, message: str
) -> None:
    """Without the check the server would silently cut the text, or pass the rows through the view."""
    sink = world.table().new()
    long = [(1, "x" * 80), (2, "y")]
    handle = stage(sink, Rows([long]), 1)
    places = {"orders": f'TABLE "{world.schema}".orders', "shop": f'"{world.schema}"'}
    for statement in alter.format(**places).split("; "):
        world.run(statement)
    with pytest.raises(ReleaseRefusedError, match=message):
        sink.release([handle], 1)
    assert sink.last_released() == 0
    for statement in mend.format(**places).split("; "):
        world.run(statement)
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == long


def test_a_table_with_wider_columns_than_at_stage_gets_the_rows(world: World) -> None:
    sink = world.table("id int NOT NULL, city varchar(9)").new()
    handle = staged(sink, 1)
    world.run(f'ALTER TABLE "{world.schema}".orders ALTER id TYPE bigint, ALTER city TYPE text')
    assert sink.release([handle], 1) == {"rows": 2}
    assert world.rows() == rows_of(1)


def test_added_columns_with_a_default_or_nullable_are_accepted(world: World) -> None:
    sink = world.table().new()
    before = staged(sink, 1)
    world.run(f'ALTER TABLE "{world.schema}".orders ADD n int NOT NULL DEFAULT 5, ADD m int')
    sink.release([before, staged(sink, 2)], 1)
    assert world.rows() == [(*row, 5, None) for row in rows_of(1, 2)]


def test_a_violated_constraint_fails_the_release_without_showing_values(world: World) -> None:
    sink = world.table(KEYED).new()
    sink.release([staged(sink, 1)], 1)
    handle = stage(sink, Rows([[(10, "t0p s3cr3t"), (99, "new")]]), 2)
    with pytest.raises(ReleaseRefusedError, match="Correct the cause in the database, and") as raised:
        sink.release([handle], 2)
    text = "".join(traceback.format_exception(raised.value)) + str(raised.value.data)
    assert "SQLSTATE 23505, UniqueViolation, constraint orders_pkey" in text
    assert "Checkpoint 2 of sink lake of job 'orders'" in text
    assert "t0p s3cr3t" not in text
    assert "(10)" not in text
    assert (world.rows(), world.staged(), sink.last_released()) == (rows_of(1), [handle["id"]], 1)
    world.run(f'DELETE FROM "{world.schema}".orders WHERE id = 10')
    assert sink.release([handle], 2) == {"rows": 2}


def test_a_violated_deferred_constraint_fails_the_release(world: World) -> None:
    sink = world.table("id int UNIQUE DEFERRABLE INITIALLY DEFERRED, city text").new()
    handle = stage(sink, Rows([[(1, "a"), (1, "b")]]), 1)
    with pytest.raises(ReleaseRefusedError, match="23505"):
        sink.release([handle], 1)
    assert world.rows() == []


def test_serializable_and_asynchronous_defaults_are_overridden(world: World) -> None:
    world.run("ALTER ROLE airflow SET default_transaction_isolation = 'serializable'")
    world.run("ALTER ROLE airflow SET synchronous_commit = 'off'")
    try:
        sink = world.table().new()
        for checkpoint in (1, 2, 3):
            handle = staged(sink, checkpoint)
            threads = [threading.Thread(target=world.bind().release, args=([handle], checkpoint)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sink.release([handle], checkpoint) == {"rows": 2}
        world.server.crash()
        world.server.launch()
        assert world.rows() == rows_of(1, 2, 3)
    finally:
        world.run("ALTER ROLE airflow RESET ALL")


def test_commits_are_synchronous_whatever_the_roles_setting_is(world: World) -> None:
    world.run("ALTER ROLE airflow SET synchronous_commit = 'off'")
    try:
        with world.bind()._transaction("read_state") as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        world.run("ALTER ROLE airflow RESET ALL")


# ---- before anything is written


def check(world: World, columns: Any = COLUMNS, **given: Any) -> None:
    bound = world.bind(**given)
    world.sink(**given).check_input(SinkInput("lake", tuple(columns)))
    bound.check_rows(SinkInput("lake", tuple(columns)))


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("id int", {}, "it has no column 'city' (it has id)"),
        ("id int, city text, n int NOT NULL", {}, "its column 'n' is NOT NULL and has no default"),
        ("id int GENERATED ALWAYS AS IDENTITY, city text", {}, "PostgreSQL itself sets the values of column 'id'"),
        ("id smallint, city text", {}, "column 'id' is integer in the job and smallint in the table"),
        ("id int, city int", {}, "column 'city' is string in the job and integer in the table"),
        ("id int, city text", {"mode": "upsert", "key": ["id"]}, "column 'id' of its key may be NULL"),
        ("id int NOT NULL, city text", {"mode": "upsert", "key": ["id"]}, "no unique constraint on (id)"),
        ("id int NOT NULL, city text NOT NULL, UNIQUE (id, city)", {"mode": "upsert", "key": ["id"]}, "on (id)"),
        ("id int UNIQUE DEFERRABLE NOT NULL, city text", {"mode": "upsert", "key": ["id"]}, "not a deferrable one"),
    ],
)
def test_an_unsuitable_table_is_refused_before_anything_is_written(
    world: World, table: str, given: dict[str, Any], message: str
) -> None:
    world.table(table)
    with pytest.raises(TargetRefusedError, match="cannot write to table") as raised:
        check(world, **given)
    assert message in str(raised.value)
    assert "sink 'lake' of job 'orders'" in str(raised.value)
    assert world.run("SELECT to_regnamespace(quote_ident(%s))", world.staging) == [(None,)]


def test_an_index_with_another_collation_than_its_column_is_not_a_key(world: World) -> None:
    """The index takes rows as one key that the column compares as two keys. No release with both would ever succeed."""
    upsert: dict[str, Any] = {"mode": "upsert", "key": ["city"]}
    collation = f'"{world.schema}".ci'
    world.run(f"CREATE COLLATION {collation} (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    world.table("id int, city text NOT NULL")
    world.run(f'CREATE UNIQUE INDEX i ON "{world.schema}".orders (city COLLATE {collation})')
    with pytest.raises(TargetRefusedError, match=r"no unique constraint on \(city\)"):
        check(world, **upsert)
    world.run(f'CREATE UNIQUE INDEX j ON "{world.schema}".orders (city COLLATE "C")')
    with pytest.raises(TargetRefusedError, match=r"no unique constraint on \(city\)"):
        check(world, **upsert)  # ON CONFLICT takes every matching index into account
    world.run(f'DROP INDEX "{world.schema}".i')
    check(world, **upsert)  # index j sorts in another way, but treats the same texts as equal
    world.run(f'ALTER TABLE "{world.schema}".orders ADD UNIQUE (city) DEFERRABLE')
    with pytest.raises(TargetRefusedError, match=r"no unique constraint on \(city\)"):
        check(world, **upsert)  # PostgreSQL does not use a constraint that is checked at the end of the transaction
    world.run(f'ALTER TABLE "{world.schema}".orders DROP CONSTRAINT orders_city_key; DROP INDEX "{world.schema}".j')
    world.run(f'CREATE UNIQUE INDEX i ON "{world.schema}".orders (city COLLATE {collation})')
    world.run(f'ALTER TABLE "{world.schema}".orders ALTER city TYPE text COLLATE {collation}')
    check(world, **upsert)
    sink = world.new(**upsert)
    assert sink.release([stage(sink, Rows([[(1, "a"), (2, "A")]]), 1)], 1) == {"rows": 2}
    assert world.rows() == [(2, "A")]


def test_suitable_tables_are_accepted(world: World) -> None:
    world.table('"Id" int, "a ""b"" %s" text, at timestamptz DEFAULT now(), n int GENERATED ALWAYS AS (1) STORED')
    columns = (("Id", "integer"), ('a "b" %s', "string"))
    check(world, columns)
    sink = world.bind()
    sink.prepare()
    sink.release([stage(sink, Rows([[(1, "x")]], columns), 1)], 1)
    assert world.run(f'SELECT "Id", n FROM "{world.schema}".orders') == [(1, 1)]


def test_a_view_or_missing_table_is_refused(world: World) -> None:
    world.run(f'CREATE UNLOGGED TABLE "{world.schema}".quick (id int, city text)')
    world.run(f"CREATE VIEW \"{world.schema}\".seen AS SELECT 1 AS id, '' AS city")
    for name, problem in (("quick", "UNLOGGED"), ("seen", "a view"), ("none", "there is no such table")):
        with pytest.raises(TargetRefusedError, match=problem):
            check(world, table=f'"{world.schema}".{name}')


def refused_with(message: str, bound: BoundSink) -> None:
    with pytest.raises(TargetRefusedError, match=message):
        bound.check_rows(SinkInput("lake", COLUMNS))
    with pytest.raises(TargetRefusedError, match=message):
        bound.prepare()


def test_missing_rights_are_refused_before_anything_is_written(world: World) -> None:
    world.table(KEYED)
    role = f"clerk_{world.schema.split()[1]}"
    world.run(f"CREATE ROLE {role} LOGIN")
    limited = World(world.server, world.schema, world.staging)
    as_clerk = PostgresSink(
        f'"{world.schema}".orders',
        mode="upsert",
        key=["id"],
        url=world.url.replace("airflow:s3cr3tPW", role),
        staging_schema=world.staging,
    )
    bound = as_clerk.bind(SinkContext("orders", "lake"))
    given = SinkInput("lake", COLUMNS)
    with pytest.raises(TargetRefusedError, match=r"does not exist, and its user may not create it.*CREATE SCHEMA"):
        bound.check_rows(given)
    world.run(f'CREATE SCHEMA "{world.staging}"')
    for has, lacks in (("", "CREATE, USAGE"), ("USAGE", "CREATE"), ("CREATE", "USAGE")):
        if has:
            world.run(f'REVOKE ALL ON SCHEMA "{world.staging}" FROM {role}')
            world.run(f'GRANT {has} ON SCHEMA "{world.staging}" TO {role}')
        refused_with(f"its user lacks {lacks} on the schema", bound)
    world.run(f'GRANT CREATE, USAGE ON SCHEMA "{world.staging}" TO {role}')
    world.run(f'GRANT USAGE ON SCHEMA "{world.schema}" TO {role}')
    with pytest.raises(TargetRefusedError, match="lacks SELECT, INSERT, UPDATE on it"):
        bound.check_rows(given)
    world.run(f'GRANT SELECT, INSERT, UPDATE ON "{world.schema}".orders TO {role}')
    bound.check_rows(given)
    bound.prepare()
    handle = staged(bound, 1)  # type: ignore[arg-type]
    assert bound.release([handle], 1) == {"rows": 2}
    assert limited.rows() == rows_of(1)


@pytest.mark.parametrize("has", ["", "CREATE", "USAGE"])
def test_missing_rights_on_the_schema_of_a_new_table_are_refused(world: World, has: str) -> None:
    role = f"clerk_{world.schema.split()[1]}"
    world.run(f"CREATE ROLE {role} LOGIN")
    world.run(f'CREATE SCHEMA "{world.staging}"')
    world.run(f'GRANT CREATE, USAGE ON SCHEMA "{world.staging}" TO {role}')
    if has:
        world.run(f'GRANT {has} ON SCHEMA "{world.schema}" TO {role}')
    url = world.url.replace("airflow:s3cr3tPW", role)
    sink = PostgresSink(f'"{world.schema}".orders', create=True, url=url, staging_schema=world.staging)
    with pytest.raises(TargetRefusedError, match="is not one in which its user may create tables"):
        sink.bind(SinkContext("orders", "lake")).check_rows(SinkInput("lake", COLUMNS))


@pytest.mark.parametrize(("table", "lacks"), [("ledger", "UPDATE"), ("released", "DELETE"), ("staged", "INSERT")])
def test_missing_rights_on_an_existing_ledger_are_refused(world: World, table: str, lacks: str) -> None:
    world.table()
    world.new()
    role = f"clerk_{world.schema.split()[1]}"
    world.run(f"CREATE ROLE {role} LOGIN")
    world.run(f'GRANT CREATE, USAGE ON SCHEMA "{world.staging}" TO {role}')
    world.run(f'GRANT USAGE ON SCHEMA "{world.schema}" TO {role}')
    world.run(f'GRANT SELECT, INSERT ON "{world.schema}".orders TO {role}')
    world.run(f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{world.staging}" TO {role}')
    url = world.url.replace("airflow:s3cr3tPW", role)
    sink = PostgresSink(f'"{world.schema}".orders', url=url, staging_schema=world.staging)
    bound, given = sink.bind(SinkContext("mine", "lake")), SinkInput("lake", COLUMNS)
    world.run(f'REVOKE {lacks} ON "{world.staging}".{table} FROM {role}')
    refused_with(f"its user lacks {lacks} on the ledger's table {table}", bound)
    world.run(f'GRANT {lacks} ON "{world.staging}".{table} TO {role}')
    bound.check_rows(given)
    bound.prepare()
    assert bound.release([staged(bound, 1)], 1) == {"rows": 2}  # type: ignore[arg-type]


def test_create_makes_a_table_with_the_key(world: World) -> None:
    sink = world.new(create=True, mode="upsert", key=["id"])
    sink.release([stage(sink, Rows([[(1, "a"), (1, "b")]]), 1)], 1)
    assert world.rows() == [(1, "b")]
    with pytest.raises(TargetRefusedError, match="its schema 'nowhere' does not exist"):
        check(world, table="nowhere.orders", create=True)


def test_all_types_round_trip_in_a_created_table(world: World) -> None:
    utc = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    now = utc.replace(tzinfo=None)
    values: list[tuple[Any, Any, Any]] = [
        ("boolean", True, True),
        ("long", 2**62, 2**62),
        ("double", float("inf"), float("inf")),
        ("decimal(38,10)", Decimal("1.0000000001"), Decimal("1.0000000001")),
        ("string", 'a "quoted"\n\\.\n,\\N', 'a "quoted"\n\\.\n,\\N'),
        ("string", "", ""),
        ("date", date(1, 1, 1), date(1, 1, 1)),
        ("timestamp", utc, utc),
        ("timestamp_ntz", now, now),
        ("binary", "\\x00ff", b"\x00\xff"),
        (
            {"type": "array", "elementType": "string", "containsNull": True},
            ['a"\\', None, "", "NULL"],
            ['a"\\', None, "", "NULL"],
        ),
        ({"type": "struct", "fields": [{"name": "n", "type": "long"}]}, '{"n":1}', {"n": 1}),
    ]
    columns = [(f"c{number}", kind) for number, (kind, _, _) in enumerate(values)]
    row, nothing = tuple(value for _, value, _ in values), tuple(None for _ in values)
    sink = world.bind(create=True)
    sink.check_rows(SinkInput("lake", tuple(columns)))
    sink.prepare()
    frame = Rows([[row, nothing]], columns)
    sink.release([stage(sink, frame, 1)], 1)
    rows = world.run(f'SELECT * FROM "{world.schema}".orders ORDER BY c0')
    assert rows == [tuple(read for _, _, read in values), nothing]


# ---- the sink as a value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": ""}, "is no name of a table"),
        ({"table": "a.b.c"}, "write schema.table"),
        ({"table": 'a."b'}, "is no name of a table"),
        ({"table": "a." + "x" * 64}, "has 64 bytes, and PostgreSQL keeps 63 of a name"),
        ({"staging_schema": "ä" * 32}, "has 64 bytes"),
        ({"staging_schema": 3}, "staging_schema='…' is no text"),
        ({"url": 3}, "url='…' is no text"),
        ({"key": None}, "is no list of column names"),
        ({"mode": "upsert", "key": (name for name in ["id"])}, "is no list of column names"),
        ({"mode": "merge"}, "is unknown; use one of append, upsert, replace"),
        ({"mode": "upsert"}, "is needed for upsert"),
        ({"key": ["id"]}, "is for upsert only"),
        ({"mode": "upsert", "key": "id"}, "give a list"),
        ({"mode": "upsert", "key": ["id", "id"]}, "names a column twice"),
        ({"conn_id": "db"}, "give one of the two"),
        ({"url": None}, "give one of the two"),
        ({"url": "mysql://h/d"}, "does not begin with postgresql://"),
    ],
)
def test_an_invalid_sink_is_refused_when_the_job_is_validated(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        PostgresSink(**{"table": "orders", "url": "postgresql://h/d", **given}).validate()


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ((), {}, "has no columns"),
        (COLUMNS, {"output_mode": "update"}, "output mode 'update' repeats a row"),
        (COLUMNS, {"output_mode": "complete"}, "output mode 'complete' repeats a row"),
        ((("id", "integer"), ("ID", "string")), {}, "that differ only in upper and lower case"),
        ((("_ckpt_part", "integer"),), {}, "is a name that the sink itself uses"),
        ((("x" * 64, "integer"),), {}, "has 64 bytes"),
        ((("id", "void"),), {}, "is of type void"),
        ((("id", "interval day to second"),), {}, "is of type interval day to second"),
    ],
)
def test_unsuitable_rows_are_refused_without_a_query(columns: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SinkInputError, match=message):
        PostgresSink("orders", url="postgresql://h/d").check_input(SinkInput("lake", columns, **given))


def test_the_key_must_be_in_the_rows_and_allows_update_mode() -> None:
    sink = PostgresSink("orders", mode="upsert", key=["id"], url="postgresql://h/d")
    with pytest.raises(SinkInputError, match="no column 'id' of the key"):
        sink.check_input(SinkInput("lake", (("city", "string"),)))
    sink.check_input(SinkInput("lake", COLUMNS, "update"))


def test_the_password_is_neither_shown_nor_recorded(world: World) -> None:
    sink = world.table().sink()
    bound = world.new()
    handle = staged(bound, 1)
    shown = [repr(sink), str(sink.definition()), repr(bound), repr(bound._database), repr(bound._database.address)]
    assert "s3cr3tPW" not in " ".join([*shown, json.dumps(handle), repr(bound.__dict__)])
    with pytest.raises(InvalidSinkError) as raised:
        PostgresSink("orders", url="postgresql://me:s3cr3t%PW@h/d").bind(SinkContext("orders", "lake"))
    assert "s3cr3t" not in f"{raised.value} {raised.value.__context__} {raised.value.__cause__}"


def test_an_airflow_connection_gives_the_address_of_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", world.table().url + "?connect_timeout=5&cursor=dictcursor")
    sink = PostgresSink(f'"{world.schema}".orders', conn_id="shop_db", staging_schema=world.staging)
    bound = sink.bind(SinkContext("orders", "lake"))
    bound.prepare()
    assert bound.last_released() == 0
    assert sink.definition()["conn_id"] == "shop_db"
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_DB")
    with pytest.raises(ConnectionMissingError, match="conn_ids="):
        sink.bind(SinkContext("orders", "lake"))


def test_a_connection_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidSinkError, match="is of type 'mysql'"):
        Address.of_connection(Connection("db", "mysql"))
    with pytest.raises(BadConnectionError, match="IAM"):
        Address.of_connection(Connection("db", "postgres", extra={"iam": True}))


def test_a_refused_target_is_invalid_input() -> None:
    assert issubclass(TargetRefusedError, InvalidInputError)
