"""Missing or unsuitable requirements are reported before the job exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.world import Variant
from tests.s3.jars import hadoop_version
from tests.s3.store import KEY, SECRET, Bucket, Server
from tests.s3.world import World

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.timeout(600)]

JOB = Variant("chained", "mixed.py", ("out", "copy"))
REFUSED = 2


def test_the_refusal_for_a_missing_jar_names_the_package(bucket: Bucket, tmp_path: Path) -> None:
    with World(tmp_path, bucket, JOB, jars=None) as world:
        world.add_history(1)
        world.add_live()
        refusal = _refusal(world)
        assert f"org.apache.hadoop:hadoop-aws:{hadoop_version()}" in refusal
        assert bucket.storage.files("ckpt") == []


def test_a_spark_endpoint_of_another_store_is_refused(
    server: Server, bucket: Bucket, jars: Path, tmp_path: Path
) -> None:
    with Server(tmp_path) as other, World(tmp_path, bucket, JOB, jars) as world:
        world.add_history(1)
        world.add_live()
        elsewhere = World(tmp_path, other.bucket(bucket.name), JOB, jars)
        elsewhere.add_history(1)
        elsewhere.add_live()
        refusal = _refusal(world, **{"spark.hadoop.fs.s3a.endpoint": other.endpoint})
        assert "the two talk to different stores" in refusal
        assert [path for path, _ in bucket.storage.files("ckpt")] == ["ckpt-root.json"]
        assert elsewhere.bucket.storage.files("ckpt") == []


def test_a_bucket_that_spark_cannot_access_is_refused_by_name(bucket: Bucket, jars: Path, tmp_path: Path) -> None:
    with Server(tmp_path) as other, World(tmp_path, bucket, JOB, jars) as world:
        world.add_history(1)
        refusal = _refusal(world, **{"spark.hadoop.fs.s3a.endpoint": other.endpoint})
        assert f"Spark was refused at s3a://{bucket.name}/ckpt" in refusal
        assert bucket.storage.files("ckpt") == []


def _refusal(world: World, **conf: str) -> str:
    driver = world.start(**conf)
    assert driver.wait() == REFUSED, driver.tail()
    world.check_nothing_tells(KEY, SECRET)
    [line] = driver.lines("refused")
    message: str = line["message"]
    return message
