"""Hadoop's checksums in the copies of Spark's folder and next to the files that we write there. No Spark runs here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Batch, Open
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, WrappedStorage, crash_points

BATCHES = 11
FIRST, SECOND, THIRD = (AttemptId(epoch, 0, "a") for epoch in (1, 2, 3))
OPENS: list[Numbered] = [
    (n, Open(attempt, attempt.epoch, str(attempt))) for n, attempt in enumerate((FIRST, SECOND, THIRD))
]
SCHEMA = "state/0/_metadata/v2/7"


def write_spark_folder(storage: Storage, folder: str) -> None:
    """Write batches 0 to 10, of which the last is only planned. Each batch has read one entry of "live"."""
    entries = []
    put(storage, f"{folder}/metadata", '{"id":"x"}')
    for number in range(BATCHES):
        offsets = f'v2\n{{"batchWatermarkMs":0}}\nlive:{{"logOffset":{number}}}'
        put(storage, f"{folder}/offsets/{number}", offsets)
        if number < BATCHES - 1:
            put(storage, f"{folder}/commits/{number}", "v1\n{}")
        entries.append(json.dumps({"path": f"file:///{number}", "batchId": number}))
        if number == 9:
            put(storage, f"{folder}/sources/live/9.compact", "\n".join(["v1", *entries]))
        else:
            put(storage, f"{folder}/sources/live/{number}", f"v1\n{entries[-1]}")
    paths = {"stateStoreInfo": [{"stateSchemaFilePaths": ["file:/elsewhere/state/0/_stateSchema/default/0_s"]}]}
    put(storage, f"{folder}/{SCHEMA}", f"v2\n{json.dumps(paths)}")
    put(storage, f"{folder}/state/0/0/1.zip", "z" * 1300)


def put(storage: Storage, path: str, text: str) -> None:
    checksum.create(storage, path, text.encode())


def run_attempt(storage: Storage, attempt: AttemptId, *, rewind_to: int | None = None) -> SparkFolder:
    folders = AttemptFolders(storage, "v")
    folder = folders.create(attempt, folders.previous(OPENS, attempt), rewind_to, ["live"])
    folders.delete_before(attempt)
    return folder


def with_first_attempt(storage: Storage) -> Storage:
    write_spark_folder(storage, f"v/{FIRST}")
    AttemptFolders(storage, "v").create(FIRST, None)
    return storage


def unfit(base: Path, attempt: AttemptId) -> list[str]:
    """Return the files without a matching checksum and the checksums without a file."""
    storage, top = open_storage(base), base / f"v/{attempt}"
    names = []
    for path in filter(Path.is_file, top.rglob("*")):
        if path.name.endswith(".crc"):
            there = path.with_name(path.name[1:-4]).is_file()
        else:
            there = path.with_name(f".{path.name}.crc").is_file()
            there &= checksum.is_as_written(storage, str(path.relative_to(base)), path.read_bytes())
        if not there:
            names.append(path.name)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("rewind_to", [None, 2, 9])
def test_each_copied_file_has_its_checksum_after_a_crash_at_any_point(tmp_path: Path, rewind_to: int | None) -> None:
    whole = WrappedStorage(with_first_attempt(open_storage(tmp_path / "measure")))
    start = whole.verbs.count
    run_attempt(whole, SECOND, rewind_to=rewind_to)
    assert unfit(tmp_path / "measure", SECOND) == []
    for at, when in crash_points(whole.verbs.count - start):
        base = tmp_path / f"{when}-{at}"
        with_first_attempt(open_storage(base))
        with pytest.raises(SimulatedCrash):
            run_attempt(CrashingStorage(open_storage(base), at, when), SECOND, rewind_to=rewind_to)
        folder = run_attempt(open_storage(base), THIRD, rewind_to=rewind_to)
        assert folder.newest_commit() == (BATCHES - 2 if rewind_to is None else rewind_to)
        assert unfit(base, THIRD) == [], (when, at)


@pytest.mark.parametrize("cut", ["sources/live/10", "offsets/10", "commits/9", "metadata", SCHEMA])
def test_a_damaged_file_in_a_copy_of_a_copy_is_refused(tmp_path: Path, cut: str) -> None:
    storage = with_first_attempt(open_storage(tmp_path))
    run_attempt(storage, SECOND)
    folder = run_attempt(storage, THIRD)
    folders, last = AttemptFolders(storage, "v"), Batch(9, {"live": '{"logOffset":9}'})
    folders.refuse_lost(THIRD, last, restores=False)
    data = storage.read(f"{folder.path}/{cut}")
    storage.replace(f"{folder.path}/{cut}", data + b"\n{}")
    if cut != SCHEMA:
        with pytest.raises(SparkFolderLostError, match="checksum"):
            folders.refuse_lost(THIRD, last, restores=False)
    assert unfit(tmp_path, THIRD) == [cut.rpartition("/")[2]]


def test_the_copy_of_a_small_file_without_a_checksum_gets_one(tmp_path: Path) -> None:
    """Older folders lack checksums.

    Only Spark writes the checksums of state files, because these are large.
    """
    storage = with_first_attempt(open_storage(tmp_path))
    for path in (tmp_path / f"v/{FIRST}").rglob(".*.crc"):
        path.unlink()
    run_attempt(storage, SECOND)
    assert unfit(tmp_path, SECOND) == ["1.zip"]


def test_the_copy_keeps_sparks_checksums_of_state_files(tmp_path: Path) -> None:
    """Spark uses this checksum to detect changed state, in an object store too.

    Without it, Spark logs a warning for each part.
    """
    storage = with_first_attempt(open_storage(f"memory://{tmp_path}"))
    checksum = '{"algorithm":"CRC32C","value":-714439632,"mainFileSize":1300}'
    storage.create(f"v/{FIRST}/state/0/0/1.zip.crc", checksum.encode())
    storage.create(f"v/{FIRST}/{SCHEMA}.crc", checksum.encode())  # the copy names other paths in this file
    storage.create(f"v/{FIRST}/state/0/0/2.zip.tmp", b"half")
    storage.create(f"v/{FIRST}/state/0/0/.2.zip.crc.tmp", b"half")
    folder = run_attempt(storage, SECOND)
    assert storage.read(f"{folder.path}/state/0/0/1.zip.crc") == checksum.encode()
    assert not storage.exists(f"{folder.path}/{SCHEMA}.crc")
    assert not storage.exists(f"{folder.path}/state/0/0/2.zip.tmp")


def test_deleting_and_planning_a_batch_leaves_no_stale_checksum(tmp_path: Path) -> None:
    storage = with_first_attempt(open_storage(tmp_path))
    folder = run_attempt(storage, SECOND)
    folder.delete_planned()
    assert folder.is_at_boundary()
    assert unfit(tmp_path, SECOND) == []
    assert folder.plan_final_batch(BATCHES - 2, 1_700_000_000_000) == BATCHES - 1
    assert unfit(tmp_path, SECOND) == []


def test_files_outside_a_local_disk_get_no_checksums(tmp_path: Path) -> None:
    storage = with_first_attempt(open_storage(f"memory://{tmp_path}"))
    folder = run_attempt(storage, SECOND)
    folder.delete_planned()
    folder.plan_final_batch(BATCHES - 2, 1_700_000_000_000)
    assert not storage.exists(f"{folder.path}/offsets/.{BATCHES - 1}.crc")
    assert not storage.exists(f"{folder.path}/.metadata.crc")
