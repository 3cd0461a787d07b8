"""The transactions of a Kafka sink's releases."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from airflow_provider_ckpt.sinks.kafka.calls import KafkaCalls

SETTLED_WITHIN = 120.0
"""Timeout of ``init_transactions`` and of a commit, in seconds. A broker that has just started needs time."""
WAITING = 400_000
"""Maximum number of messages that wait in the client. A full queue would refuse some rows, and break their order."""
_POLL = 0.1
_ANY = -1
"""Partition number that leaves the choice to Kafka's own partitioner."""


class Transactions:
    """The transactions of one producer, one after the other.

    After any error, discard the object: the outcome of its transaction is unknown until a new producer has settled it.
    Raises the errors of :meth:`KafkaCalls.request`.
    """

    def __init__(self, calls: KafkaCalls, producer: Any) -> None:
        self._calls, self._producer = calls, producer

    def begin(self) -> None:
        self._calls.request("beginning a transaction", self._producer.begin_transaction)

    def send(self, topic: str, batches: Iterable[list[dict[str, Any]]]) -> int:
        """Send the rows of :meth:`KafkaStaging.messages`. Return the number of sent rows."""
        sent = 0
        for rows in batches:
            sent += len(rows)
            for partition, partition_rows in _by_partition(rows).items():
                self._send(topic, partition, partition_rows)
        return sent

    def _send(self, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
        while len(self._producer) > WAITING:
            self._producer.poll(0.02)
        while rows:
            produce = functools.partial(self._producer.produce_batch, topic, rows, partition=partition)
            self._calls.request(f"writing to {topic}", produce)
            refused = [row for row in rows if "_error" in row]
            for row in refused:
                error = row.pop("_error")
                if error.name() != "_QUEUE_FULL":
                    raise self._calls.error_for(f"writing to {topic}", error)
            rows = refused
            self._producer.poll(0.1 if rows else 0)

    def record(self, topic: str, value: bytes) -> None:
        while len(self._producer) > WAITING:
            self._producer.poll(0.02)
        produce = functools.partial(self._producer.produce, topic, value, partition=0)
        while True:
            try:
                return self._calls.request(f"writing to {topic}", produce)  # type: ignore[no-any-return]
            except BufferError:  # the sink's settings may demand a small queue
                self._producer.poll(_POLL)

    def commit(self) -> None:
        self._calls.request("committing a release", lambda: self._producer.commit_transaction(SETTLED_WITHIN))


def _by_partition(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Return partition number -> rows for it, in order. ``produce_batch`` ignores a partition in a message."""
    if not rows or "partition" not in rows[0]:
        return {_ANY: rows}
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        partition = row.pop("partition")
        groups.setdefault(_ANY if partition is None else partition, []).append(row)
    return groups
