"""The transactions of a Kafka sink's releases."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from airflow_provider_ckpt.sinks.kafka.calls import KafkaCalls

SETTLED_WITHIN = 120.0
"""Seconds. Of ``init_transactions``: a broker that has just started takes its time."""
WAITING = 400_000
"""Messages that wait in the client: a full queue would refuse some of a batch, and break their order."""
_POLL = 0.1
_ANY = -1
"""Kafka's own partitioner chooses."""


class Transactions:
    """One after the other, of one producer. After anything that raises it is of no use any more: what became of the
    transaction is unknown until a new one has settled it. Raises as :meth:`KafkaCalls.asked`."""

    def __init__(self, calls: KafkaCalls, producer: Any) -> None:
        self._calls, self._producer = calls, producer

    def begin(self) -> None:
        self._calls.asked("beginning a transaction", self._producer.begin_transaction)

    def send(self, topic: str, batches: Iterable[list[dict[str, Any]]]) -> int:
        """Rows of :meth:`KafkaStaging.messages`; returns how many."""
        sent = 0
        for rows in batches:
            sent += len(rows)
            for partition, some in _by_partition(rows).items():
                self._send(topic, partition, some)
        return sent

    def _send(self, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
        while len(self._producer) > WAITING:
            self._producer.poll(0.02)
        while rows:
            produce = functools.partial(self._producer.produce_batch, topic, rows, partition=partition)
            self._calls.asked(f"writing to {topic}", produce)
            refused = [row for row in rows if "_error" in row]
            for row in refused:
                error = row.pop("_error")
                if error.name() != "_QUEUE_FULL":
                    raise self._calls.told(f"writing to {topic}", error)
            rows = refused
            self._producer.poll(0.1 if rows else 0)

    def record(self, topic: str, value: bytes) -> None:
        while len(self._producer) > WAITING:
            self._producer.poll(0.02)
        produce = functools.partial(self._producer.produce, topic, value, partition=0)
        while True:
            try:
                return self._calls.asked(f"writing to {topic}", produce)  # type: ignore[no-any-return]
            except BufferError:  # the settings of the sink may want a small queue
                self._producer.poll(_POLL)

    def commit(self) -> None:
        """All that was sent, or nothing."""
        self._calls.asked("committing a release", lambda: self._producer.commit_transaction(SETTLED_WITHIN))


def _by_partition(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """``produce_batch`` passes over a partition of a message of its own, and says nothing. Order is kept in each."""
    if not rows or "partition" not in rows[0]:
        return {_ANY: rows}
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        partition = row.pop("partition")
        found.setdefault(_ANY if partition is None else partition, []).append(row)
    return found
