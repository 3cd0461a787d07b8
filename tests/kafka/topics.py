"""Topics of a test's broker. A separate client creates, fills, truncates and reads them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from tests.support.waiting import wait_until

_QUIET = {"log_level": 0}
"""Log level for clients, because brokers are killed while they are connected."""


class Topics:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, **_QUIET})

    def make(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"t{uuid.uuid4().hex[:10]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(60)
        wait_until(lambda: len(self._partitions(name)) == partitions, f"topic {name}")
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(60)
        wait_until(lambda: not self.exists(name), f"the end of topic {name}")

    def exists(self, name: str) -> bool:
        return name in self._admin.list_topics(timeout=30).topics

    def add_partitions(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(60)
        wait_until(lambda: len(self._partitions(name)) == partitions, f"partitions of {name}")

    def expire(self, name: str, before: int) -> None:
        """Delete the rows before the offset in each partition, as retention does."""
        gone = [TopicPartition(name, number, before) for number in self._partitions(name)]
        for future in self._admin.delete_records(gone).values():
            future.result(60)

    def _partitions(self, name: str) -> list[int]:
        metadata = self._admin.list_topics(timeout=30).topics.get(name)
        return [] if metadata is None else sorted(metadata.partitions)

    def put(self, name: str, ids: Iterable[int], **config: str) -> set[int]:
        """Write a row {"id", "k"} for each id, into the partition given by its number."""
        numbers, partitions = list(ids), self._partitions(name)
        producer = Producer({"bootstrap.servers": self.servers, **_QUIET, **config})
        for number in numbers:
            value = json.dumps({"id": number, "k": number % 3})
            producer.produce(name, value, key=str(number), partition=partitions[number % len(partitions)])
            producer.poll(0)
        assert producer.flush(60) == 0
        return set(numbers)

    def open_transaction(self, name: str, ids: Iterable[int]) -> Producer:
        """Write rows in an open transaction, and return its producer. The caller commits or aborts."""
        producer = Producer({"bootstrap.servers": self.servers, **_QUIET, "transactional.id": f"open-{name}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in ids:
            producer.produce(name, json.dumps({"id": number, "k": number % 3}), partition=0)
        assert producer.flush(60) == 0
        return producer

    def messages(self, name: str, level: str = "read_committed") -> list[Any]:
        """Return all messages that a reader with that isolation level finds."""
        settings = {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **_QUIET, "isolation.level": level, **settings})
        partitions = self._partitions(name)
        consumer.assign([TopicPartition(name, number, 0) for number in partitions])
        messages, ended = [], 0
        try:
            while ended < len(partitions):
                for message in consumer.consume(10_000, 10):
                    if message.error():
                        ended += 1
                    else:
                        messages.append(message)
        finally:
            consumer.close()
        return messages

    def rows(self, name: str, level: str = "read_committed") -> list[Mapping[str, Any]]:
        return [json.loads(message.value()) for message in self.messages(name, level)]

    def ids(self, name: str, level: str = "read_committed") -> list[int]:
        return sorted(row["id"] for row in self.rows(name, level))
