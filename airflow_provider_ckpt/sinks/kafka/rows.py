"""Checks that refuse rows at staging if brokers would refuse them in every release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.errors import RowsRefusedError
from airflow_provider_ckpt.sinks.spark_exceptions import has_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OVERHEAD = 512
"""Maximum size of a record without its key and value, in bytes."""
_SIZE, _KEY, _PARTITION = "CKPT_KAFKA_RECORD_TOO_LARGE", "CKPT_KAFKA_NO_KEY", "CKPT_KAFKA_NO_PARTITION"


@dataclass(frozen=True)
class TopicLimits:
    """The limits of a topic. ``largest``: largest record, in bytes. ``needs_key``: True if the topic is compacted."""

    topic: str
    largest: int
    partitions: int
    needs_key: bool

    @property
    def content(self) -> int:
        """Maximum size of key and value together, in bytes."""
        return max(1, self.largest - OVERHEAD)

    def checked(self, frame: DataFrame) -> DataFrame:
        """Return the frame with only a record's columns. Its query fails at a row that the topic would refuse."""
        names = [name for name in ("key", "value", "partition") if name in frame.columns]
        cases = " ".join(
            f"WHEN {condition} THEN raise_error('{message}')" for condition, message in self._refusals(names)
        )
        chosen = {
            "value": f"CAST(CASE {cases} ELSE value END AS BINARY) AS value",
            "key": "CAST(key AS BINARY) AS key",
        }
        return frame.selectExpr(*(chosen.get(name, name) for name in names))

    def _refusals(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        sizes = "+".join(f"coalesce(octet_length({name}), 0)" for name in names if name != "partition")
        yield f"{sizes} > {self.content}", _SIZE
        if self.needs_key:
            yield "key IS NULL" if "key" in names else "true", _KEY
        if "partition" in names:
            yield f"partition NOT BETWEEN 0 AND {self.partitions - 1}", _PARTITION

    def error_for(self, error: BaseException, sink: str, handle: str) -> CkptError | None:
        """Return the error for a failure of a checked frame; None if the failure has another cause."""
        error_fields = {"sink": sink, "handle": handle, "topic": self.topic}
        if has_text(error, _SIZE):
            return RowsRefusedError(
                "sink {sink}: a row of batch {handle} has more than {limit} bytes in key and value, which topic "
                "{topic} does not take (max.message.bytes). Nothing of the batch was staged: raise the limit of the "
                "topic, or leave such rows out, and resume with --resume-failed",
                **error_fields,
                limit=self.content,
            )
        if has_text(error, _KEY):
            problem, advice = "has no key, and the topic is compacted (cleanup.policy)", "give it a key"
        elif has_text(error, _PARTITION):
            problem = f"is for a partition that the topic does not have: its partitions are 0 to {self.partitions - 1}"
            advice = "correct the column partition, or add partitions to the topic"
        else:
            return None
        return RowsRefusedError(
            "sink {sink}: a row of batch {handle} {problem}; no release could write it to {topic}. Nothing of the "
            "batch was staged: {advice}, or leave such rows out, and resume with --resume-failed",
            **error_fields,
            problem=problem,
            advice=advice,
        )
