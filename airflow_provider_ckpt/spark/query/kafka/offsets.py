"""The offsets that a bounded Kafka source reads, as a document that is stored once for all attempts (R11)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.spark.query.kafka.kafka_options import TopicPartition
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document

KIND = "frozen-offsets"
VERSION = 1


@dataclass(frozen=True)
class FrozenPartition:
    """The offsets of one partition that the source reads: from ``start`` up to ``end`` (exclusive)."""

    topic: str
    partition: Count
    start: Count
    end: Count


@dataclass(frozen=True)
class FrozenOffsets:
    uid: str
    partitions: tuple[FrozenPartition, ...]

    @property
    def count(self) -> int:
        """Return how many offsets are to read. Fewer rows may exist, because transactions and compaction leave gaps."""
        return sum(max(0, partition.end - partition.start) for partition in self.partitions)

    def remaining(self) -> dict[TopicPartition, int]:
        """Return partition -> end offset, for the partitions whose start is before their end."""
        return {
            (partition.topic, partition.partition): partition.end
            for partition in self.partitions
            if partition.start < partition.end
        }

    def by_topic(self) -> dict[str, list[FrozenPartition]]:
        topics: dict[str, list[FrozenPartition]] = {}
        for partition in self.partitions:
            topics.setdefault(partition.topic, []).append(partition)
        return topics

    def reader_options(self, *, streaming: bool) -> dict[str, str]:
        """Return Spark's reader options for these partitions and offsets. They replace the user's own options.

        With ``streaming`` True the end is missing, because Spark's streaming reader has no option for it.
        """
        topics = self.by_topic().items()
        starts = {
            topic: {str(partition.partition): partition.start for partition in partitions}
            for topic, partitions in topics
        }
        ends = {
            topic: {str(partition.partition): max(partition.start, partition.end) for partition in partitions}
            for topic, partitions in topics
        }
        assigned = {topic: [partition.partition for partition in partitions] for topic, partitions in topics}
        options = {"assign": json.dumps(assigned), "startingOffsets": json.dumps(starts)}
        return options if streaming else {**options, "endingOffsets": json.dumps(ends)}

    def encoded(self) -> bytes:
        partitions = [asdict(partition) for partition in self.partitions]
        return encode_document(KIND, VERSION, uid=self.uid, partitions=partitions)

    @classmethod
    def decoded(cls, data: bytes, uri: str) -> FrozenOffsets:
        """Return the offsets that a stored document contains. ``uri``: place of the document, for error messages.

        Raises MalformedDocumentError, NewerFormatError, UnknownFormError.
        """
        body = decode_document(data, KIND, VERSION, uri=uri)
        return cls(
            read_field(body, "uid", reader(str)),
            tuple(read_field(body, "partitions", reader(list[FrozenPartition]))),
        )
