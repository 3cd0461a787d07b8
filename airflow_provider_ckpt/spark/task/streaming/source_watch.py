"""Watch for frozen input of a vertex's sources that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.spark.plan.builder import BuiltQuery
from airflow_provider_ckpt.spark.query.kafka.errors import KafkaRefusedError, KafkaUnreachableError
from airflow_provider_ckpt.spark.query.kafka.freezing import why_endless, why_made_again
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_files, unescaped_path
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import KafkaRowsGoneError
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.inputs import BoundedInput, Inputs

Stuck = tuple[BoundedInput | BoundedOffsets, SourceReads]


class SourceWatch:
    """A watch for sources that can never end: a frozen file has vanished, or no row will reach a frozen offset.

    Without this watch such a job would run for ever.
    """

    def __init__(self, context: RunContext, vertex: JobVertex, inputs: Inputs) -> None:
        self._context, self._vertex, self._inputs = context, vertex, inputs

    def stuck(self, built: BuiltQuery, now: float) -> Iterator[Stuck]:
        """Yield the sources that may never end. Each source limits how often it is yielded.

        This only checks facts in memory. :meth:`refuse` checks files and brokers.

        Args:
            built: the query of the current plan.
            now: of ``time.monotonic``.
        """
        for uid, source in self._inputs.bounded.items():
            if uid in built.reads and source.is_stuck(now):
                yield source, built.reads[uid]

    def refuse(self, source: BoundedInput | BoundedOffsets, reads: SourceReads) -> None:
        """Refuse a source that can never end. This takes long, because it lists files or asks the broker.

        Raises FrozenFilesMissingError, KafkaRowsGoneError.
        """
        if isinstance(source, BoundedInput):
            source.refuse_missing(unescaped_path(file) for file in list_files(self._context.spark, reads))
            return
        location = self._context.operators[source.uid].location
        known = self._context.topics.get(source.uid, {})
        with suppress(KafkaUnreachableError, KafkaRefusedError):  # the query also notices, and may recover
            why = why_endless(self._context.spark, source.uid, location, reads.options, known, source.remaining)
            if source.is_hopeless(why):
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=why)

    def refuse_made_again(self, built: BuiltQuery) -> None:
        """Refuse topics that were deleted and created again since the job was planned.

        Otherwise a restarted attempt would read the new topic from the offset of the old one.

        Raises KafkaRowsGoneError.
        """
        for uid, read in built.reads.items():
            why = why_made_again(read.topics, self._context.topics.get(uid, {}))
            if why is not None:
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=why)
