"""Modes, keys, the ledger, and handles that are not as they were written."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.errors import TerminalError
from airflow_provider_ckpt.sinks.errors import (
    DamagedHandleError,
    ForeignReleaseError,
    OutputSupersededError,
    ReleaseRecordLostError,
    StagedDataDamagedError,
    StagedElsewhereError,
    UnknownHandleError,
)
from tests.sinks.databases import rows_of, stage
from tests.sinks.sql.world import Rows, World, staged

GOLDEN = Path(__file__).parents[2] / "golden" / "sql-handle-v1.json"
KEYED = "id int NOT NULL PRIMARY KEY, city text"


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
    sink = world.table("id int NOT NULL PRIMARY KEY").bind(mode="upsert", key=["id"])
    sink.prepare()
    sink.release([stage(sink, Rows([[(1,), (1,), (2,)]], [("id", "integer")]), 1)], 1)
    assert world.rows() == [(1,), (2,)]


def test_replace_empties_the_table_only_at_the_first_release(world: World) -> None:
    world.table()
    world.put((7, "of somebody else"))
    sink = world.new(mode="replace")
    first = staged(sink, 1)
    assert world.rows() == [(7, "of somebody else")]
    sink.release([first], 1)
    assert world.rows() == rows_of(1)
    world.bind(mode="replace").release([staged(sink, 2)], 2)
    assert world.rows() == rows_of(1, 2)


def test_a_first_release_without_rows_also_replaces(world: World) -> None:
    world.table()
    world.put((7, None))
    sink = world.new(mode="replace")
    assert sink.release([], 1) == {"rows": 0}
    assert (world.rows(), sink.last_released()) == ([], 1)
    world.put((8, None))
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
    world.put((7, None))
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
    world.run(f"DELETE FROM {world.schema}ckpt_ledger")
    with pytest.raises(ReleaseRecordLostError, match="it has no entry"):
        sink.release([handle], 2)
    with pytest.raises(ReleaseRecordLostError, match="while the job runs"):
        staged(sink, 3)
    world.new()
    with pytest.raises(ReleaseRecordLostError, match="was created again after"):
        sink.release([handle], 2)
    world.forget()
    with pytest.raises(ReleaseRecordLostError, match="it has no entry"):
        sink.release([handle], 2)
    assert world.rows() == rows_of(1)


def test_a_ledger_from_an_older_backup_is_refused(world: World) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 1)
    handle = staged(sink, 2)
    world.run(f"UPDATE {world.schema}ckpt_ledger SET last = 0")
    with pytest.raises(ReleaseRecordLostError, match=r"its last release is 0, and was 1 when batch"):
        sink.release([handle], 2)


def test_r9_an_unreleased_batch_at_a_lower_checkpoint_means_another_job(world: World) -> None:
    sink = world.table().new()
    sink.release([staged(sink, 1)], 5)
    handle = staged(sink, 2)
    with pytest.raises(ForeignReleaseError, match="has released checkpoint 5 without"):
        sink.release([handle], 4)
    assert sink.release([handle], 6) == {"rows": 2}


def test_a_ledger_of_a_later_version_is_refused(world: World) -> None:
    world.table().new()
    world.run(f"UPDATE {world.schema}ckpt_format SET version = 2")
    for act in (lambda: world.bind().prepare(), lambda: world.bind().last_released()):
        with pytest.raises(TerminalError, match="has version 2"):
            act()


def test_deleted_staged_rows_fail_the_release(world: World) -> None:
    sink = world.table().new()
    whole, broken = staged(sink, 1), staged(sink, 2)
    world.run(f"DELETE FROM {world.schema}{broken['staged']} WHERE id = 20")
    with pytest.raises(
        StagedDataDamagedError,
        match=r"2 rows were staged, and 1 reached the table\. 1 are still staged: something other",
    ):
        sink.release([whole, broken], 1)
    assert (world.rows(), sink.last_released()) == ([], 0)


def test_a_golden_handle_is_released(world: World) -> None:
    """Logs of waiting jobs hold such handles."""
    sink = world.table().new()
    golden = json.loads(GOLDEN.read_text())
    world.run(f"UPDATE {world.schema}ckpt_ledger SET last = 11")
    [[born]] = world.run(f"SELECT born FROM {world.schema}ckpt_ledger")
    place = world.schema + golden["staged"]
    world.run(f"CREATE TABLE {place} (id int, city text, _ckpt_part bigint, _ckpt_row bigint)")
    world.run(f"INSERT INTO {place} VALUES (1, 'a', 100, 0), (2, 'b', 101, 0), (2, 'b', 999, 0)")
    given = {**golden, "ledger": born, "table": str(sink._table)}
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
        ({"table": "shop.another"}, StagedElsewhereError),
    ],
)
def test_a_modified_handle_releases_nothing(world: World, change: dict[str, Any], error: type[Exception]) -> None:
    sink = world.table().new()
    handle = staged(sink, 1)
    with pytest.raises(error):
        sink.release([{**handle, **change}], 1)
    assert (world.rows(), sink.last_released()) == ([], 0)
