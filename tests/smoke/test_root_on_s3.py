"""A bounded job whose checkpoint root is on an S3 server on loopback."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import AlreadyExistsError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.s3 import S3Storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.harness import World
from tests.support.s3_server import s3_server

pytestmark = [pytest.mark.smoke, pytest.mark.spark]


class RootWithoutSpark(WrappedStorage):
    """A storage that Spark does not open, because its S3 jars (0.7 GB) are not installed.

    A bounded job of one query needs them only for the check at its start: the journal and the logs of the subtasks
    are written by this package, and Spark writes nothing below the root.
    """

    def spark_uri(self, path: str = "") -> str:
        return "file:///nowhere"

    def _wrap(self, inner: Storage) -> RootWithoutSpark:
        return RootWithoutSpark(inner)


def s3_storage(endpoint: str) -> Storage:
    import s3fs

    options = {"key": "a", "secret": "b", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
    bucket = f"b-{uuid.uuid4().hex}"
    s3fs.S3FileSystem(**options).call_s3("create_bucket", Bucket=bucket)
    return open_storage(Location(f"s3://{bucket}/root", options))


def test_a_job_with_its_root_on_s3_claims_it_and_releases_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    world, job = World(tmp_path), Job("orders")
    ids = world.put_ids("in", files=3, each=2)

    @job.source(bounded=True)
    def orders(read: Any) -> Any:
        return read.schema("id LONG").parquet(world.path("in"))

    job.sink("lake", orders, FileSink(world.path("out")))
    with s3_server() as endpoint:
        root = s3_storage(endpoint)
        assert isinstance(root, S3Storage)
        run = world.run(job, storage=RootWithoutSpark(root))
        assert (run.status, run.cause) == ("FINISHED", None)
        assert world.released_ids() == sorted(ids)
        state = Journal(root, "job").replay()
        assert (state.status, state.epoch, state.damage) == ("FINISHED", 1, [])
        claim = "job/journal/" + min(path for path, _ in root.files("job/journal"))
        with pytest.raises(AlreadyExistsError):
            root.create(claim, b"a second claim of the same epoch")
    assert world.everything_under_root() == []
