"""Spark's folder while another driver still writes to it (R8, R12). No Spark runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders, delete_trials_before
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.errors import AlreadyExistsError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Open
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedStorage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def run_batch(storage: Storage, number: int) -> None:
    """Write the files of one micro-batch in Spark's order."""
    for name in (f"sources/live/{number}", f"offsets/{number}", f"state/0/0/{number}.zip", f"commits/{number}"):
        storage.create(f"v/1/{name}", b'v2\n{"batchWatermarkMs":0}')


def test_r8_a_copied_commit_is_whole_while_the_other_driver_runs(storage: Storage) -> None:
    """The other driver commits a batch between any two steps of the copy."""
    for at in range(1, 10):
        source, target = open_storage(f"{storage.uri[7:]}/{at}"), f"v/{at + 1}"
        run_batch(source, 0)
        copies: list[str] = []

        def hook(verb: str, path: str) -> None:
            if verb == "copy":
                copies.append(path)  # noqa: B023
                if len(copies) == at:  # noqa: B023
                    run_batch(source, 1)  # noqa: B023

        copy = SparkFolder(HookedStorage(source, hook), target)
        copy.copy_from(SparkFolder(source, "v/1"))
        for commit in source.list(f"{target}/commits"):
            for name in (f"offsets/{commit}", f"sources/live/{commit}", f"state/0/0/{commit}.zip"):
                assert source.exists(f"{target}/{name}"), (at, name)


def test_r8_no_attempt_continues_from_a_folder_under_deletion(storage: Storage) -> None:
    for epoch in (1, 2):
        storage.create(f"v/{epoch:04d}-x/metadata", b"x")
        AttemptFolders(storage, "v").create(AttemptId(epoch, 0, "x"), None)
    first, second = (AttemptId(epoch, 0, "x") for epoch in (1, 2))
    chosen: list[AttemptId | None] = []

    def hook(verb: str, path: str) -> None:
        if verb == "delete_tree":
            chosen.append(AttemptFolders(storage, "v").previous([(0, Open(first, 1, str(first)))], second))

    AttemptFolders(HookedStorage(storage, hook), "v").delete_before(second)
    assert chosen == [None]


def test_r12_the_final_batch_never_replaces_a_planned_one(storage: Storage) -> None:
    run_batch(storage, 0)
    storage.create("v/1/offsets/1", b"planned")
    with pytest.raises(AlreadyExistsError):
        SparkFolder(storage, "v/1").plan_final_batch(0, 1_700_000_000_000)
    assert storage.read("v/1/offsets/1") == b"planned"


def test_r21_a_dry_run_copy_drops_batches_planned_during_the_copy(storage: Storage) -> None:
    """The query keeps running.

    While the copy lists the folder, the query may commit the planned batch and plan another one.
    """
    run_batch(storage, 0)

    class GoesOn(WrappedStorage):
        def files(self, path: str) -> Sizes:
            before = super().files(path)
            if path != "v/1" or self.inner.exists("v/1/commits/1"):
                return before
            run_batch(storage, 1)
            storage.create("v/1/offsets/2", b'v2\n{"batchWatermarkMs":0}')
            return [file for file in super().files(path) if file[0] != "commits/1"]

    copy = SparkFolder(GoesOn(storage), "v/2")
    copy.copy_from(SparkFolder(GoesOn(storage), "v/1"))
    assert (copy.newest_commit(), copy.newest_offsets()) == (0, 2)
    copy.delete_planned()
    copy.plan_empty_batch()
    assert (copy.newest_commit(), copy.newest_offsets()) == (0, 1)


def test_r8_a_fenced_attempt_deletes_no_trial_of_a_later_attempt(
    storage: Storage,
) -> None:
    """The attempt was paused after its last check of the log."""
    attempts = [AttemptId(1, number, f"n{number}") for number in range(4)]
    for attempt in attempts:
        storage.create(f"v/trial/{attempt}-1/metadata", b"x")
    delete_trials_before(storage, "v/trial", attempts[2])
    assert storage.list("v/trial") == sorted(f"{attempt}-1" for attempt in attempts[2:])
