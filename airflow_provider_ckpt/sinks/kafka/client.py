"""The Kafka client of a sink: all that it asks of the brokers."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.kafka.errors import (
    KafkaClientMissingError,
    KafkaRejectedError,
    KafkaSettingsError,
    KafkaUnavailableError,
)
from airflow_provider_ckpt.storage.redaction import redact, secrets_in

ANSWER_WITHIN = 30.0
SETTLED_WITHIN = 120.0
"""Seconds. Of ``init_transactions``: a broker that has just started takes its time."""
_WAITING = 400_000
"""Messages that wait in the client: a full queue would refuse some of a batch, and break their order."""
_POLL = 0.1
_ANY = -1
"""Kafka's own partitioner chooses."""
_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_HOPELESS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "INVALID_TRANSACTION_TIMEOUT",
        "MSG_SIZE_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_OR_PART",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)


class ReleaserFenced(Exception):
    """Another releaser of this sink has begun since: what became of our transaction, the ledger tells."""


@dataclass(frozen=True)
class TopicFacts:
    """``may_write``: None if the brokers do not say."""

    id: str
    partitions: int
    settings: Mapping[str, str]
    may_write: bool | None


class KafkaClient:
    """``settings``: librdkafka's, with secrets: never shown. Every method raises KafkaUnavailableError if it may be
    tried again, KafkaRejectedError if not."""

    def __init__(self, sink: str, servers: str, settings: Mapping[str, Any], timeout: float) -> None:
        self.sink, self.servers, self._timeout = sink, servers, timeout
        self._settings = {"log_level": 2, **settings, "bootstrap.servers": servers}
        self._secrets = tuple(secrets_in(settings))
        self._admin: Any = None

    def __repr__(self) -> str:
        return f"KafkaClient({self.servers!r})"

    # ---- topics

    def topic(self, name: str) -> TopicFacts | None:
        """None: there is none of that name."""
        kafka, admin = self._kafka(), self._of_admin()
        told = self._asked(
            f"describing topic {name}",
            lambda: admin.describe_topics(
                kafka.TopicCollection([name]), include_authorized_operations=True, request_timeout=ANSWER_WITHIN
            )[name].result(ANSWER_WITHIN),
            absent="UNKNOWN_TOPIC_OR_PART",
        )
        if told is None:
            return None
        resource = kafka.admin.ConfigResource(kafka.admin.RESOURCE_TOPIC, name)
        found = self._asked(
            f"describing topic {name}",
            lambda: admin.describe_configs([resource], request_timeout=ANSWER_WITHIN)[resource].result(ANSWER_WITHIN),
            absent="TOPIC_AUTHORIZATION_FAILED",
        )
        settings = {one.name: str(one.value) for one in (found or {}).values()}
        allowed = [one.name for one in told.authorized_operations or ()]
        may_write = bool({"WRITE", "ALL"} & set(allowed)) if allowed else None
        return TopicFacts(str(told.topic_id), len(told.partitions), settings, may_write)

    def make_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """With one partition; silent if it is there. Returns when the brokers tell of it, which takes them a moment."""
        kafka, admin = self._kafka(), self._of_admin()
        topic = kafka.admin.NewTopic(name, 1, config=dict(settings))
        self._asked(
            f"making topic {name}",
            lambda: admin.create_topics([topic])[name].result(ANSWER_WITHIN),
            absent="TOPIC_ALREADY_EXISTS",
        )
        until = time.monotonic() + ANSWER_WITHIN
        while self.topic(name) is None:
            if time.monotonic() > until:
                raise self._unavailable(f"making topic {name}", "it was made, and is not there")
            time.sleep(_POLL)

    def bounds(self, name: str) -> tuple[int, int]:
        """Offsets of partition 0: of the first record, and behind the last one, whatever became of its transaction."""
        kafka, admin = self._kafka(), self._of_admin()
        first = kafka.TopicPartition(name, 0)

        def ask(spec: Any) -> int:
            level = kafka.IsolationLevel.READ_UNCOMMITTED
            told = admin.list_offsets({first: spec}, isolation_level=level, request_timeout=ANSWER_WITHIN)
            return int(told[first].result(ANSWER_WITHIN).offset)

        spec = kafka.admin.OffsetSpec
        low, high = spec.earliest(), spec.latest()
        return self._asked(f"asking for the offsets of {name}", lambda: (ask(low), ask(high)))  # type: ignore[no-any-return]

    def committed(self, name: str, start: int, end: int) -> list[bytes]:
        """The committed records of partition 0 from ``start`` up to ``end``. It waits for transactions that are open in
        there."""
        if start >= end:
            return []
        return self._asked(f"reading {name}", lambda: self._read(name, start, end))  # type: ignore[no-any-return]

    def _read(self, name: str, start: int, end: int) -> list[bytes]:
        kafka = self._kafka()
        settings = {"group.id": "ckpt-ledger", "enable.auto.commit": False, "enable.partition.eof": True}
        settings = {**self._settings, **settings, "isolation.level": "read_committed"}
        consumer = self._made(lambda: kafka.Consumer(settings))
        found, until = [], time.monotonic() + self._timeout + SETTLED_WITHIN
        try:
            consumer.assign([kafka.TopicPartition(name, 0, start)])
            while time.monotonic() < until:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append(message.value())
                elif error.code() != kafka.KafkaError._PARTITION_EOF:
                    raise kafka.KafkaException(error)
                elif message.offset() >= end:
                    return found
        finally:
            consumer.close()
        raise KafkaUnavailableError(
            sink=self.sink, what=f"reading {name}", servers=self.servers, cause="a transaction in it stays open"
        )

    # ---- transactions

    def transactions(self, transactional_id: str, largest: int) -> Transactions:
        """A producer that has settled what became of the transactions before it. ``largest``: bytes of a record.

        Any other producer of the id is fenced by it: an open transaction was aborted, one that was being committed is
        complete.
        """
        producer = self._producer(transactional_id, largest)
        self._asked("settling the transactions before", lambda: producer.init_transactions(SETTLED_WITHIN))
        return Transactions(self, producer)

    def check_settings(self, transactional_id: str, largest: int) -> None:
        """That the client takes them for a release; nothing is asked of the brokers, and nobody is fenced. Raises
        KafkaSettingsError: some are of no use only to a producer of transactions."""
        self._producer(transactional_id, largest)

    def _producer(self, transactional_id: str, largest: int) -> Any:
        kafka = self._kafka()
        settings = {
            "linger.ms": 20,
            "compression.type": "lz4",
            "batch.num.messages": 50_000,
            "batch.size": min(1_000_000, largest),
            "queue.buffering.max.messages": _WAITING + 100_000,
            "queue.buffering.max.kbytes": 262_144,
            "message.max.bytes": max(1000, largest),
            **self._settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(self._timeout * 1000),
        }
        return self._made(lambda: kafka.Producer(settings))

    # ---- what goes wrong

    def _made(self, make: Callable[[], Any]) -> Any:
        """A client. Raises KafkaSettingsError: another try would be refused, too."""
        try:
            return make()
        except self._kafka().KafkaException as error:
            cause = redact(error.args[0].str(), self._secrets)
        except (TypeError, ValueError) as error:
            cause = redact(str(error), self._secrets)
        raise KafkaSettingsError(sink=self.sink, cause=cause)

    def _asked(self, what: str, ask: Any, absent: str | None = None) -> Any:
        """``absent``: the error that stands for None."""
        kafka = self._kafka()
        try:
            return ask()
        except kafka.KafkaException as error:
            told = error.args[0]
            if absent is not None and told.name() == absent:
                return None
            raise self.told(what, told) from None
        except futures.TimeoutError:
            raise self._unavailable(what, "no answer") from None

    def told(self, what: str, error: Any) -> Exception:
        if error.name() in _FENCED:
            return ReleaserFenced(what)
        cause = redact(f"{error.name()}: {error.str()}", self._secrets)
        if error.name() in _HOPELESS:
            return KafkaRejectedError(sink=self.sink, what=what, servers=self.servers, cause=cause)
        return self._unavailable(what, cause)

    def _unavailable(self, what: str, cause: str) -> CkptError:
        return KafkaUnavailableError(sink=self.sink, what=what, servers=self.servers, cause=cause)

    def _of_admin(self) -> Any:
        """Kept: an answer to a client that was collected never comes."""
        if self._admin is None:
            self._admin = self._made(lambda: self._kafka().admin.AdminClient(self._settings))
        return self._admin

    def _kafka(self) -> Any:
        try:
            import confluent_kafka  # an extra
            import confluent_kafka.admin
        except ImportError:
            raise KafkaClientMissingError from None
        return confluent_kafka


class Transactions:
    """One after the other, of one producer. After anything that raises it is of no use any more: what became of the
    transaction is unknown until a new one has settled it. Raises ReleaserFenced, and as :class:`KafkaClient`."""

    def __init__(self, client: KafkaClient, producer: Any) -> None:
        self._client, self._producer = client, producer

    def begin(self) -> None:
        self._client._asked("beginning a transaction", self._producer.begin_transaction)

    def send(self, topic: str, batches: Iterable[list[dict[str, Any]]]) -> int:
        """Rows of :meth:`KafkaStaging.messages`; returns how many."""
        sent = 0
        for rows in batches:
            sent += len(rows)
            for partition, some in _by_partition(rows).items():
                self._send(topic, partition, some)
        return sent

    def _send(self, topic: str, partition: int, rows: list[dict[str, Any]]) -> None:
        while len(self._producer) > _WAITING:
            self._producer.poll(0.02)
        while rows:
            produce = functools.partial(self._producer.produce_batch, topic, rows, partition=partition)
            self._client._asked(f"writing to {topic}", produce)
            refused = [row for row in rows if "_error" in row]
            for row in refused:
                error = row.pop("_error")
                if error.name() != "_QUEUE_FULL":
                    raise self._client.told(f"writing to {topic}", error)
            rows = refused
            self._producer.poll(0.1 if rows else 0)

    def record(self, topic: str, value: bytes) -> None:
        while len(self._producer) > _WAITING:
            self._producer.poll(0.02)
        produce = functools.partial(self._producer.produce, topic, value, partition=0)
        while True:
            try:
                return self._client._asked(f"writing to {topic}", produce)  # type: ignore[no-any-return]
            except BufferError:  # the settings of the sink may want a small queue
                self._producer.poll(_POLL)

    def commit(self) -> None:
        """All that was sent, or nothing."""
        self._client._asked("committing a release", lambda: self._producer.commit_transaction(SETTLED_WITHIN))


def _by_partition(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """``produce_batch`` passes over a partition of a message of its own, and says nothing. Order is kept in each."""
    if not rows or "partition" not in rows[0]:
        return {_ANY: rows}
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        partition = row.pop("partition")
        found.setdefault(_ANY if partition is None else partition, []).append(row)
    return found
