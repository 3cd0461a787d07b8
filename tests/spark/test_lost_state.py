"""A state file of a stateful operator that is lost between two runs.

The driver names it and refuses to run before it deletes anything.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.sparkfiles.errors import SparkStateLostError
from airflow_provider_ckpt.sparkfiles.state_check import StateCheck
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.faults import HookedStorage, at_prepared
from tests.spark.harness import World
from tests.spark.jobs import windows
from tests.spark.spark_folders import damaged, newest_file, refuse_twice, spark_folder

Content = Callable[[bytes], bytes]


def newest(world: World) -> Path:
    """Return the snapshot of the first partition that the newest commit names."""
    attempt = spark_folder(world, "counts")
    commit = newest_file(attempt / "commits")
    version = json.loads(commit.read_text().splitlines()[1])["stateUniqueIds"]["0"][0][0]
    return attempt / f"state/0/0/{int(commit.name) + 1}_{version}.zip"


def read(world: World, entry: int) -> Callable[[], bool]:
    return lambda: world.state().last_completed > 0 and world.read_up_to("counts", "live") >= entry


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [None, lambda whole: whole[: len(whole) // 2], lambda whole: b""], ids=["gone", "cut", "emptied"]
)
def test_lost_state_is_refused_by_name_and_the_job_resumes_once_it_is_back(
    world: World, content: Content | None
) -> None:
    """Without the check Spark fails at every try, with an unknown file or the end of a stream."""
    expected = world.put_ids("history", 2, 10) | world.put_ids("live", 2, 10, 1000)
    assert world.run(windows(world), world.ask("stop", read(world, 1))).status == "STOPPED"
    expected |= world.put_ids("live", 1, 10, 1020)
    lost = newest(world)
    with damaged(world, [lost], content):
        assert "--restore" in refuse_twice(world, windows(world), f"/state/0/0/{lost.name} ")
    run = world.run(windows(world), world.ask("drain", read(world, 2)), resume_failed=True)
    assert run.status == "FINISHED"
    assert sum(row["n"] for row in world.released()) == len(expected)


def test_a_job_restores_the_last_checkpoint_from_before_the_loss(world: World) -> None:
    expected = world.put_ids("history", 1, 10) | world.put_ids("live", 1, 10, 1000)
    dropped = lambda: read(world, 0)() and any("history" in sources for sources in world.state().dropped.values())  # noqa: E731
    assert world.run(windows(world), world.ask("stop", dropped)).status == "STOPPED"
    expected |= world.put_ids("live", 3, 10, 1020)

    def fail() -> None:
        raise StorageTransientError(verb="replace", uri="prepared", reason="gone")

    # one checkpoint comes with the start; no other one covers the later batches
    storage = HookedStorage(world.storage, at_prepared("counts", 3, fail))
    assert world.run(windows(world), storage=storage, checkpoint_interval=3600).status == "RESTARTING"
    state, lost = world.state(), newest(world)
    covered = state.checkpoints[state.last_completed].subtasks[SubtaskId("counts/0")].batch_id
    assert covered is not None
    assert covered + 1 < int(lost.name.partition("_")[0])
    checkpoint = f"chk-{state.last_completed}"
    with damaged(world, [lost]):
        refuse_twice(world, windows(world), f"/state/0/0/{lost.name} ")
        run = world.run(windows(world), world.ask("drain", read(world, 3)), restore=checkpoint, resume_failed=True)
        assert run.status == "FINISHED"
        lost.parent.mkdir(parents=True)  # the job has deleted the folder
    assert sum(row["n"] for row in world.released()) == len(expected)


# ---- complete and incomplete state; no Spark runs here

COMMIT = json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [["a"], ["b"]], "1": [["c", "d"], ["e", "f"]]}})
STORES = ("0/0/8_a", "0/1/8_b", "1/0/left/8_c", "1/0/right/8_d", "1/1/left/8_e", "1/1/right/8_f")


def snapshot(**files: int) -> bytes:
    named = [{"localFileName": "1.sst", "dfsSstFileName": f"{name}.sst", "sizeBytes": files[name]} for name in files]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MANIFEST-000005", b"\0" * 1000)
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": named, "numKeys": 2}))
    return buffer.getvalue()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Return a storage with the state of batches 6 and 7."""
    made = open_storage(f"memory://{tmp_path}")
    for store in STORES:
        made.replace(f"v/1/state/{store}.zip", snapshot(**{"000008-x": 3}))
        made.replace(f"v/1/state/{store.rpartition('/')[0]}/SSTs/000008-x.sst", b"abc")
    made.replace("v/1/state/0/_metadata/metadata", b'v1\n{"stateStoreInfo":[{"storeName":"default"}]}')
    made.replace("v/1/state/0/0/_metadata/schema", b"v2...")
    path = "file:/elsewhere/state/1/_stateSchema/left/0_s"
    metadata = {"stateStoreInfo": [{"stateSchemaFilePaths": [path]}, {"storeName": "right"}]}
    made.replace("v/1/state/1/_metadata/v2/0", f"v2\n{json.dumps(metadata)}".encode())
    made.replace("v/1/state/1/_stateSchema/left/0_s", b"v3...")
    made.replace("v/1/state/0/0/7_older.zip", b"")
    made.replace("v/1/state/0/0/.8_a.zip.crc", b"")
    return made


def check(storage: Storage) -> None:
    StateCheck(storage, "v/1").run(7, COMMIT)


def test_whole_state_is_accepted(storage: Storage) -> None:
    check(storage)
    storage.delete("v/1/state/0/0/8_a.zip")
    storage.replace("v/1/state/0/0/8_a.changelog", b"x")
    check(storage)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("0/1/8_b.zip", None, "is missing"),
        ("1/1/right/8_f.zip", None, r"is missing"),
        ("0/0/8_a.zip", b"", "is empty"),
        ("0/0/8_a.zip", b"garbage", "is not what Spark wrote"),
        ("1/0/right/8_d.zip", snapshot()[:-40], "is not what Spark wrote"),
        ("0/0/8_a.zip", snapshot().replace(b"MANIFEST", b"MANIFESX", 1), "is not what Spark wrote"),
        ("0/0/SSTs/000008-x.sst", None, "is missing"),
        ("0/_metadata/metadata", b"v1\n{", "is not what Spark wrote"),
        ("0/_metadata/metadata", b"v1\n[]", "is not what Spark wrote"),
        ("0/_metadata/metadata", b"", "is empty"),
        ("0/0/_metadata/schema", None, "is missing"),
        ("0/0/_metadata/schema", b"", "is empty"),
        ("1/_metadata/v2/0", b"v2", "is not what Spark wrote"),
        ("1/_stateSchema/left/0_s", None, "is missing"),
        ("1/_stateSchema/left/0_s", b"", "is empty"),
        ("1/0/left/SSTs/000008-x.sst", b"ab", "has 2 bytes of 3"),
    ],
)
def test_a_missing_or_damaged_state_file_is_named(
    storage: Storage, name: str, data: bytes | None, problem: str
) -> None:
    if data is None:
        storage.delete(f"v/1/state/{name}")
    else:
        storage.replace(f"v/1/state/{name}", data)
    shown = name if name != "1/1/right/8_f.zip" else "1/1/8_f.zip"  # only the files show where a store is
    with pytest.raises(SparkStateLostError, match=f"/v/1/state/{shown} {problem}") as caught:
        check(storage)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "manifest", ["v3\nnot JSON", "v3\n[]", 'v3\n{"files": []}', 'v3\n{"sstFiles": [{"name": "x"}]}']
)
def test_a_whole_snapshot_of_another_spark_is_accepted(storage: Storage, manifest: str) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("metadata", manifest)
    storage.replace("v/1/state/0/0/8_a.zip", made.getvalue())
    check(storage)


def test_a_query_without_state_is_not_checked(storage: Storage) -> None:
    class Unasked(WrappedStorage):
        def files(self, path: str) -> list[tuple[str, int]]:
            raise AssertionError(path)

    for commit in ('{"nextBatchWatermarkMs":0}', '{"stateUniqueIds":{}}', '{"stateUniqueIds":null}'):
        StateCheck(Unasked(storage), "v/1").run(7, commit)


@pytest.mark.parametrize("verb", ["read", "files"])
def test_a_storage_error_does_not_count_as_lost_state(storage: Storage, verb: str) -> None:
    class Broken(WrappedStorage):
        pass

    def gone(path: str) -> bytes:
        raise StorageTransientError(verb=verb, uri=path, reason="I/O error")

    broken = Broken(storage)
    setattr(broken, verb, gone)
    with pytest.raises(StorageTransientError) as caught:
        check(broken)
    assert caught.value.retryable


def test_an_operator_without_its_metadata_is_refused(storage: Storage) -> None:
    storage.delete("v/1/state/0/_metadata/metadata")
    with pytest.raises(SparkStateLostError, match="v/1/state/0/_metadata is missing"):
        check(storage)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["state/0/_metadata", "state/0/0/_metadata/schema"])
def test_a_lost_schema_is_refused_before_the_query_starts(world: World, name: str) -> None:
    """Spark would write a new schema."""
    expected = world.put_ids("history", 2, 10) | world.put_ids("live", 2, 10, 1000)
    assert world.run(windows(world), world.ask("stop", read(world, 1))).status == "STOPPED"
    expected |= world.put_ids("live", 1, 10, 1020)
    with damaged(world, [spark_folder(world, "counts") / name]):
        refuse_twice(world, windows(world), f"/{name} ")
    run = world.run(windows(world), world.ask("drain", read(world, 2)), resume_failed=True)
    assert run.status == "FINISHED"
    assert sum(row["n"] for row in world.released()) == len(expected)
