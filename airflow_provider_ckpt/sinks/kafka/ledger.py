"""The ledger of a Kafka sink's releases: a topic of its own for each job, sink and target.

A release has one record, or several if it has many batches. The transaction that writes the rows also writes the
records, so both exist or neither (R9). The topic has one partition, retains all records, and belongs to one sink alone.
In a shared topic another job's open transaction would hide the sink's own committed record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError, TargetRefusedError
from airflow_provider_ckpt.sinks.kafka.calls import topic_refused
from airflow_provider_ckpt.sinks.kafka.client import KafkaClient
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.refusal import refused_as

KIND = "kafka-ledger"
VERSION = 1
SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Topic settings that retain every record, because a late release may repeat batches of several older releases."""
_TAIL = 64
_IDS = 16_384
"""Approximate limit of the ids in one record, in bytes, so that brokers with small limits accept the record."""


@dataclass(frozen=True)
class LedgerRecord:
    """A record of a release. ``rows``: rows of the whole release. ``topic``: id of the topic with the rows."""

    checkpoint: int
    rows: int
    ids: tuple[str, ...]
    topic: str

    def encoded(self, context: SinkContext) -> bytes:
        return encode_document(
            KIND,
            VERSION,
            job=context.job_id,
            sink=context.uid,
            checkpoint=self.checkpoint,
            rows=self.rows,
            ids=list(self.ids),
            topic=self.topic,
        )

    @classmethod
    def decoded(cls, data: bytes, uri: str) -> LedgerRecord:
        """Decode a record.

        Raises MalformedDocumentError, NewerFormatError, UnknownFormError.
        """
        body = decode_document(data, KIND, VERSION, uri=uri)
        return cls(
            read_field(body, "checkpoint", reader(Count)),
            read_field(body, "rows", reader(Count)),
            tuple(read_field(body, "ids", reader(list[str]))),
            read_field(body, "topic", reader(str)),
        )


def records_of(checkpoint: int, rows: int, ids: Iterable[str], topic: str) -> list[LedgerRecord]:
    """Return the records of one release. A release with very many batches needs several records."""
    groups, width = [list[str]()], 0
    for batch_id in ids:
        if width + len(batch_id) > _IDS:
            groups.append([])
            width = 0
        groups[-1].append(batch_id)
        width += len(batch_id)
    return [LedgerRecord(checkpoint, rows, tuple(group), topic) for group in groups]


def ledger_name(context: SinkContext, topic: str) -> str:
    """Return the name of the ledger's topic: a hash, because a job's name may be too long for a topic."""
    name = "/".join((context.job_id, context.uid, topic))
    return f"ckpt-ledger-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


class Ledger:
    """The ledger of one sink of one job. Each method reads the records that are committed when it is called."""

    def __init__(self, client: KafkaClient, context: SinkContext, topic: str) -> None:
        self._client, self._context, self._topic = client, context, topic
        self.name = ledger_name(context, topic)

    def prepare(self) -> None:
        """Create the ledger's topic if it is absent.

        Raises TargetRefusedError for a topic whose settings would lose records.
        """
        if self._client.topic(self.name) is None:
            self._client.make_topic(self.name, SETTINGS)
        facts = self._client.topic(self.name)
        if facts is None:
            raise self._lost("is gone as soon as it was made")
        if facts.partitions != 1:
            raise self._refused(f"its ledger, topic {self.name}, has {facts.partitions} partitions, not one")
        for key, value in SETTINGS.items():
            if facts.settings and facts.settings.get(key, value) != value:
                has = f"{key}={facts.settings[key]}, not {value}"
                raise self._refused(f"its ledger, topic {self.name}, has {has}: it would lose records")

    def _refused(self, problem: str) -> TargetRefusedError:
        return topic_refused(self._context.uid, self._topic, self._client.servers, problem)

    def id(self) -> str:
        """Return the id that the brokers gave the ledger's topic; empty if the topic is absent."""
        facts = self._client.topic(self.name)
        return "" if facts is None else facts.id

    def end(self) -> int:
        """Return the end offset of the ledger. Records of later releases have this offset or a higher one."""
        return self._client.bounds(self.name)[1]

    def newest(self) -> LedgerRecord | None:
        """Return the newest record; None if there is no release or no ledger."""
        if self._client.topic(self.name) is None:
            return None
        low, high = self._client.bounds(self.name)
        records: list[LedgerRecord] = []
        width, start = _TAIL, high
        while not records and start > low:  # the end may consist of aborted transactions
            start, width = max(low, high - width), 4 * width
            records = self._read(start, high)
        return records[-1] if records else None

    def since(self, offset: int, ledger_ids: Collection[str]) -> list[LedgerRecord]:
        """Return the records from the offset on, in order; if there are none, the newest record before the offset.

        ``ledger_ids``: ids of the ledgers that the handles name. All must be this ledger's id, because only the ledger
        of a handle shows whether the batch was released.

        Raises ReleaseRecordLostError for a ledger that is gone or lost records, because rows would be written twice.
        """
        facts = self._client.topic(self.name)
        if facts is None:
            raise self._lost("is gone")
        if any(ledger_id != facts.id for ledger_id in ledger_ids):
            raise self._lost("was deleted and made again")
        low, high = self._client.bounds(self.name)
        if low > offset:
            raise self._lost(f"begins at offset {low}, and those from {offset} on are needed")
        if high < offset:
            raise self._lost(f"ends at offset {high}, and a batch was staged when it ended at {offset}")
        records = self._read(offset, high)
        if records:
            return records
        newest = self.newest()
        return [] if newest is None else [newest]

    def _read(self, start: int, end: int) -> list[LedgerRecord]:
        uri = f"kafka://{self._client.servers}/{self.name}"
        records = self._client.committed(self.name, start, end)
        with refused_as(lambda problem: self._lost(f"holds a record that is none: {problem}")):
            return [LedgerRecord.decoded(record, uri) for record in records]

    def _lost(self, problem: str) -> ReleaseRecordLostError:
        return ReleaseRecordLostError(
            "the ledger of sink {sink} of job {job!r}, topic {ledger} at {servers}, {problem}. It records which "
            "checkpoints the job has released to {topic}, and a release without it could write rows twice. Nothing "
            "was released: bring it back and resume with --resume-failed, or run the job under another id, from its "
            "input",
            sink=self._context.uid,
            job=self._context.job_id,
            ledger=self.name,
            servers=self._client.servers,
            topic=self._topic,
            problem=problem,
        )


def released_ids(records: Sequence[LedgerRecord]) -> frozenset[str]:
    return frozenset(batch_id for record in records for batch_id in record.ids)
