"""The client of a Kafka sink, with all its requests to the brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.sinks.errors import ReleaseRefusedError, SinkUnavailableError
from airflow_provider_ckpt.sinks.kafka.calls import KafkaCalls, unavailable
from airflow_provider_ckpt.sinks.kafka.transactions import SETTLED_WITHIN, WAITING, Transactions

log = logging.getLogger(__name__)

ANSWER_WITHIN = 30.0
"""Timeout of a request to the brokers, in seconds."""
_POLL = 0.1
_RECORDS = 1_000_000
"""The client allows records of at least this many bytes, because a ledger record may exceed the topic's limit."""
_MAX_TIMEOUT = "transaction.max.timeout.ms"


@dataclass(frozen=True)
class TopicFacts:
    """The properties of a topic. ``may_write``: True if the user may write to it; None if that is unknown."""

    id: str
    partitions: int
    settings: Mapping[str, str]
    may_write: bool | None


class KafkaClient:
    """The client of a Kafka sink. ``timeout``: limit of a transaction, in seconds. ``settings`` contain secrets.

    Every method raises the errors of :meth:`KafkaCalls.request`.
    """

    def __init__(self, sink: str, servers: str, settings: Mapping[str, Any], timeout: float) -> None:
        self.servers, self.timeout = servers, timeout
        self._calls = KafkaCalls(sink, servers, settings)
        self._settings = {
            "log_level": 2,
            "error_cb": self._calls.on_error,
            **settings,
            "bootstrap.servers": servers,
        }
        self._admin: Any = None

    def __repr__(self) -> str:
        return f"KafkaClient({self.servers!r})"

    # ---- topics

    def topic(self, name: str) -> TopicFacts | None:
        """Return the properties of a topic; None if the topic does not exist."""
        kafka, admin = self._calls.kafka, self._admin_client()
        topic = self._calls.request(
            f"describing topic {name}",
            lambda: admin.describe_topics(
                kafka.TopicCollection([name]), include_authorized_operations=True, request_timeout=ANSWER_WITHIN
            )[name].result(ANSWER_WITHIN),
            absent="UNKNOWN_TOPIC_OR_PART",
        )
        if topic is None:
            return None
        resource = kafka.admin.ConfigResource(kafka.admin.RESOURCE_TOPIC, name)
        config = self._calls.request(
            f"describing topic {name}",
            lambda: admin.describe_configs([resource], request_timeout=ANSWER_WITHIN)[resource].result(ANSWER_WITHIN),
            absent="TOPIC_AUTHORIZATION_FAILED",
        )
        settings = {entry.name: str(entry.value) for entry in (config or {}).values()}
        allowed = [operation.name for operation in topic.authorized_operations or ()]
        may_write = bool({"WRITE", "ALL"} & set(allowed)) if allowed else None
        return TopicFacts(str(topic.topic_id), len(topic.partitions), settings, may_write)

    def longest_transaction(self) -> float | None:
        """Return the maximum duration of a transaction that all brokers allow, in seconds; None if it is unknown.

        A user may lack the right to query it, and some services do not answer. A too long ``transaction_timeout`` is
        then refused only at the first release.
        """
        try:
            brokers_settings = self._calls.request("asking for the brokers' limits", self._brokers_settings)
        except (ReleaseRefusedError, SinkUnavailableError) as error:
            log.info("the first release will show whether transaction_timeout is too long: %s", error)
            return None
        values = [settings[_MAX_TIMEOUT].value for settings in brokers_settings if _MAX_TIMEOUT in settings]
        # a service may name the setting without a value
        limits = [int(value) for value in values if str(value).isdecimal()]
        return min(limits) / 1000 if limits else None

    def _brokers_settings(self) -> list[Any]:
        kafka, admin = self._calls.kafka, self._admin_client()
        cluster = admin.describe_cluster(request_timeout=ANSWER_WITHIN).result(ANSWER_WITHIN)
        brokers = [kafka.admin.ConfigResource(kafka.admin.RESOURCE_BROKER, str(node.id)) for node in cluster.nodes]
        # one call for each broker, because the client refuses a call that names two
        futures = [admin.describe_configs([broker], request_timeout=ANSWER_WITHIN)[broker] for broker in brokers]
        return [future.result(ANSWER_WITHIN) for future in futures]

    def make_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Create a topic with one partition, and wait until the brokers list it. An existing topic stays unchanged."""
        kafka, admin = self._calls.kafka, self._admin_client()
        topic = kafka.admin.NewTopic(name, 1, config=dict(settings))
        self._calls.request(
            f"making topic {name}",
            lambda: admin.create_topics([topic])[name].result(ANSWER_WITHIN),
            absent="TOPIC_ALREADY_EXISTS",
        )
        deadline = time.monotonic() + ANSWER_WITHIN
        while self.topic(name) is None:
            if time.monotonic() > deadline:
                raise self._calls.unavailable(f"making topic {name}", "it was made, but the brokers do not list it")
            time.sleep(_POLL)

    def bounds(self, name: str) -> tuple[int, int]:
        """Return (offset of the first record, offset after the last record, committed or not) of partition 0."""
        kafka, admin = self._calls.kafka, self._admin_client()
        partition = kafka.TopicPartition(name, 0)

        def offset(spec: Any) -> int:
            level = kafka.IsolationLevel.READ_UNCOMMITTED
            offsets = admin.list_offsets({partition: spec}, isolation_level=level, request_timeout=ANSWER_WITHIN)
            return int(offsets[partition].result(ANSWER_WITHIN).offset)

        spec = kafka.admin.OffsetSpec
        low, high = spec.earliest(), spec.latest()
        return self._calls.request(f"asking for the offsets of {name}", lambda: (offset(low), offset(high)))  # type: ignore[no-any-return]

    def committed(self, name: str, start: int, end: int) -> list[bytes]:
        """Return the committed records of partition 0 from ``start`` up to ``end``. Wait for open transactions."""
        if start >= end:
            return []
        return self._calls.request(f"reading {name}", lambda: self._read(name, start, end))  # type: ignore[no-any-return]

    def _read(self, name: str, start: int, end: int) -> list[bytes]:
        kafka = self._calls.kafka
        settings = {"group.id": "ckpt-ledger", "enable.auto.commit": False, "enable.partition.eof": True}
        settings = {**self._settings, **settings, "isolation.level": "read_committed"}
        consumer = self._calls.create_client(lambda: kafka.Consumer(settings))
        values, deadline = [], time.monotonic() + self.timeout + SETTLED_WITHIN
        try:
            consumer.assign([kafka.TopicPartition(name, 0, start)])
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    values.append(message.value())
                elif error.code() != kafka.KafkaError._PARTITION_EOF:
                    raise kafka.KafkaException(error)
                elif message.offset() >= end:
                    return values
        finally:
            consumer.close()
        raise unavailable(self._calls.sink, self.servers, f"reading {name}", "a transaction in it stays open")

    # ---- transactions

    def transactions(self, transactional_id: str, largest: int) -> Transactions:
        """Return a producer that has fenced all other producers of the id and settled their transactions.

        An open transaction is aborted, a half-committed transaction completed. ``largest``: maximum record in bytes.
        """
        producer = self._producer(transactional_id, largest)
        self._calls.request("settling the transactions before", lambda: producer.init_transactions(SETTLED_WITHIN))
        return Transactions(self._calls, producer)

    def check_settings(self, transactional_id: str, largest: int) -> None:
        """Check the client's settings for a transaction, without a request and without fencing a producer.

        Raises InvalidSinkError.
        """
        self._producer(transactional_id, largest)

    def _producer(self, transactional_id: str, largest: int) -> Any:
        kafka = self._calls.kafka
        settings = {
            "linger.ms": 20,
            "compression.type": "lz4",
            "batch.num.messages": 50_000,
            "batch.size": min(1_000_000, largest),
            "queue.buffering.max.messages": WAITING + 100_000,
            "queue.buffering.max.kbytes": 262_144,
            "message.max.bytes": max(_RECORDS, largest),
            **self._settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(self.timeout * 1000),
        }
        return self._calls.create_client(lambda: kafka.Producer(settings))

    def _admin_client(self) -> Any:
        """Return the client for administration. It is created once, and must exist until all answers have arrived."""
        if self._admin is None:
            admin = self._calls.create_client(lambda: self._calls.kafka.admin.AdminClient(self._settings))
            self._admin, self._calls.poll_errors = admin, lambda: admin.poll(0)
        return self._admin
