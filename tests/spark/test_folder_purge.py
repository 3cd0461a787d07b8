"""Deletion of everything in Spark's folder that precedes the oldest retained checkpoint (R6, R7).

No Spark runs here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.sparkfiles.folder_check import FolderCheck
from airflow_provider_ckpt.sparkfiles.folder_purge import FolderPurge
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, crash_points
from tests.spark.compacted_folder import NEWEST, check_spark_folder, offsets_of, write_folder
from tests.spark.faults import HookedStorage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return write_folder(open_storage(tmp_path))


def purge(storage: Storage, batch: int) -> None:
    FolderPurge(SparkFolder(storage, "v")).run(batch, offsets_of(batch))


def remaining(storage: Storage, log: str) -> list[int]:
    return sorted(int(name.partition(".")[0]) for name in storage.list(f"v/{log}") if name[0].isdigit())


def test_r6_a_purge_keeps_everything_from_the_oldest_retained_batch_on(storage: Storage) -> None:
    purge(storage, 34)
    assert remaining(storage, "offsets") == remaining(storage, "commits") == list(range(32, NEWEST + 1))
    assert remaining(storage, "sources/live") == [19, *range(29, NEWEST + 1)]
    assert remaining(storage, "sources/topic") == [0]
    assert SparkFolder(storage, "v").has_batch(34)
    check_spark_folder(storage, NEWEST, restores=False)
    check_spark_folder(storage, 34, restores=True)


@pytest.mark.parametrize("batch", [34, 39, 40, NEWEST])
def test_r2_a_purge_keeps_the_names_of_all_files_that_were_read(storage: Storage, batch: int) -> None:
    """This also holds if the source's log is rewound to the checkpoint."""
    purge(storage, batch)
    everything = SeenFiles(storage, "v/sources/live").advance(NEWEST)
    assert everything == {f"in/{file}" for file in range(NEWEST + 1)}
    SparkFolder(storage, "v").rewind(batch, ["live"])
    assert SeenFiles(storage, "v/sources/live").advance(batch) == {f"in/{file}" for file in range(batch + 1)}


def test_r6_a_purge_never_deletes_the_newest_commit(storage: Storage) -> None:
    FolderPurge(SparkFolder(storage, "v")).run(NEWEST + 50, {})
    assert remaining(storage, "offsets") == remaining(storage, "commits") == list(range(NEWEST - 2, NEWEST + 1))
    check_spark_folder(storage, NEWEST, restores=False)


def test_a_purge_keeps_two_compacted_entries_that_show_the_interval(storage: Storage) -> None:
    """Spark would compact after every twenty entries if only entry 19 remained."""
    purge(storage, 29)
    compacted = [name for name in storage.list("v/sources/live") if name.endswith(".compact")]
    assert compacted == ["19.compact", "29.compact", "39.compact"]
    young = write_folder(storage.child("young"), newest=15)
    purge(young, 15)
    assert remaining(young, "sources/live") == list(range(16))


def test_a_purge_leaves_exactly_the_checksums_of_remaining_files(storage: Storage, tmp_path: Path) -> None:
    purge(storage, 34)
    files = {path for path in (tmp_path / "v").rglob("*") if path.is_file()}
    sums = {path for path in files if path.name.startswith(".")}
    assert {path.with_name(path.name[1:-4]) for path in sums} == files - sums


@pytest.mark.slow
def test_r7_a_purge_can_crash_at_each_verb(tmp_path: Path) -> None:
    verbs = Verbs()
    purge(CrashingStorage(write_folder(open_storage(f"memory://{tmp_path}/whole")), verbs=verbs), 34)
    assert verbs.count > 90
    for at, when in crash_points(verbs.count):
        inner = write_folder(open_storage(f"memory://{tmp_path}/{at}-{when}"))
        with pytest.raises(SimulatedCrash):
            purge(CrashingStorage(inner, at, when), 34)
        check_spark_folder(inner, NEWEST, restores=False)
        check_spark_folder(inner, 34, restores=True)
        purge(inner, 34)
        assert remaining(inner, "offsets") == list(range(32, NEWEST + 1))
        assert remaining(inner, "sources/live") == [19, *range(29, NEWEST + 1)]


def test_r8_a_copy_of_a_folder_is_whole_despite_a_concurrent_purge(tmp_path: Path) -> None:
    """The purge comes from a fenced JobMaster.

    Its successor restores only later checkpoints than those it knows.
    """
    for at in range(1, 120, 13):
        storage = write_folder(open_storage(tmp_path / str(at)))
        copies: list[str] = []

        def hook(verb: str, path: str) -> None:
            if verb == "copy":
                copies.append(path)  # noqa: B023
                if len(copies) == at:  # noqa: B023
                    purge(storage, 34)  # noqa: B023

        copy = SparkFolder(HookedStorage(storage, hook), "w")
        copy.copy_from(SparkFolder(storage, "v"))
        assert len(copies) >= at
        last = Batch(NEWEST, offsets_of(NEWEST))
        FolderCheck(SparkFolder(storage, "w"), last, restores=False).run()
        FolderCheck(SparkFolder(storage, "w"), Batch(34, offsets_of(34)), restores=True).run()
