"""A topic as the target of a KafkaSink, for the conformance suite and the tests of releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
from airflow_provider_ckpt.sinks.kafka.kafka_sink import KafkaSink
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, StageRequest
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import When, WrappedStorage
from airflow_provider_ckpt.testing.released_rows import Damage, Row
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from airflow_provider_ckpt.testing.staging import stage
from tests.kafka.faults import Death, HookedClient
from tests.kafka.topics import Topics
from tests.support.refusing_storage import RefusingStorage


class KafkaRowSink(BoundKafkaSink):
    """Sink for the rows of the suite. Each row is the value of a record."""

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        columns = [F.col("city").alias("key"), F.to_json(F.struct("id", "city")).alias("value")]
        return super().stage(frame.select(*columns), request)


class Topic(SinkTarget):
    def __init__(self, topics: Topics, path: Path, partitions: int = 2) -> None:
        self.topics, self.path, self.name = topics, path, topics.make(partitions)
        self.sink = KafkaSink(topics.servers, self.name, str(path), transaction_timeout=60)

    def client(self, uid: str = "lake") -> HookedClient:
        return HookedClient(uid, self.topics.servers, {}, 60)

    def bound(
        self, client: HookedClient, storage: Storage | None = None, job_id: str = "orders", uid: str = "lake"
    ) -> KafkaRowSink:
        return KafkaRowSink(self.name, client, SinkContext(job_id, uid), storage or open_storage(self.path))

    def bind(self, job_id: str = "orders", uid: str = "lake") -> KafkaRowSink:
        return self.bound(self.client(uid), None, job_id, uid)

    def dying(self, at: int, when: When) -> KafkaRowSink:
        death, client = Death(at, when), self.client()
        client.before, client.after = death.before, death.after
        return self.bound(client, death.around(open_storage(self.path)))

    def refusing(self, handle: Handle) -> KafkaRowSink:
        storage = RefusingStorage(open_storage(self.path), lambda path: path.endswith(handle["id"]))
        return self.bound(self.client(), storage)

    def damage(self, handle: Handle, how: Damage) -> None:
        file = self.path / "_ckpt/orders/lake/staging" / handle["id"] / handle["files"][-1]["path"]
        if how == "deleted":
            file.unlink()
        else:
            file.write_bytes(b"")

    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        storage = WrappedStorage(open_storage(self.path))
        handle = stage(self.bound(self.client(), storage), frame, 1)
        return storage.verbs.log[-1:] == [f"sync _ckpt/orders/lake/staging/{handle['id']}"]

    def definition(self) -> Mapping[str, Any]:
        return KafkaSink(self.topics.servers, self.name, str(self.path)).definition()

    def rows(self, spark: SparkSession) -> list[Row]:
        return self.read()

    def read(self) -> list[Row]:
        return sorted((row["id"], row["city"]) for row in self.topics.rows(self.name))

    def staged(self) -> list[str]:
        places = self.path.glob("_ckpt/*/*/staging/*")
        return sorted(place.name for place in places if any(file.is_file() for file in place.rglob("*")))
