"""What attempts have left that others of their subtask follow under one driver."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.partitions.records import Batch, PartitionFile
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.spark.task.attempt_leftovers import delete_leftovers
from airflow_provider_ckpt.storage.opening import open_storage

DATA = "p/a__b/data"


def test_r5_what_those_before_have_not_published_goes_and_nothing_else(tmp_path: Path) -> None:
    storage = open_storage(f"memory://{tmp_path}")
    first, second, third = (AttemptId(3, number, "aaaa") for number in range(3))
    log = SubtaskLog(storage, "log")
    log.load()
    log.open(first)
    folders = {one: f"{one}-{number}-0a1b2c3d" for one, number in ((first, 7), (second, 8), (third, 9))}
    torn = f"{first}-6-0a1b2c3d"
    for name in (*folders.values(), torn, "of somebody else"):
        storage.create(f"{DATA}/{name}/part-0", b"rows")
        storage.create(f"scratch/{name}/part-0", b"rows")
    log.publish(Batch(7, {}, files=(PartitionFile(f"a__b/data/{folders[first]}/part-0", 4),)))
    log.open(second)

    delete_leftovers(storage, log, DATA, "scratch")  # as late as it may: the third has begun by now
    assert sorted(storage.list(DATA)) == sorted([*folders.values(), "of somebody else"])
    kept_copies = sorted([folders[first], folders[second], folders[third], "of somebody else"])
    assert sorted(storage.list("scratch")) == kept_copies

    log.open(third)
    delete_leftovers(storage, log, DATA, "scratch")
    assert sorted(storage.list(DATA)) == sorted([folders[first], folders[third], "of somebody else"])
