"""What was frozen of a vertex's sources, and is not to be had any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.spark.query.builder import BuiltQuery
from airflow_provider_ckpt.spark.query.frozen import list_files, unescaped_path
from airflow_provider_ckpt.spark.query.kafka.errors import KafkaRefusedError, KafkaUnreachableError
from airflow_provider_ckpt.spark.query.kafka.freezing import why_endless, why_made_again
from airflow_provider_ckpt.spark.query.reader import SourceReads
from airflow_provider_ckpt.spark.task.context import RunContext
from airflow_provider_ckpt.spark.task.errors import KafkaRowsGoneError
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.inputs import BoundedInput, Inputs

Stuck = tuple[BoundedInput | BoundedOffsets, SourceReads]


class SourceWatch:
    """A frozen file that vanished, or a frozen offset that no row will come to, would keep its source from ending, and
    the job from finishing, for ever."""

    def __init__(self, context: RunContext, vertex: JobVertex, inputs: Inputs) -> None:
        self._context, self._vertex, self._inputs = context, vertex, inputs

    def stuck(self, built: BuiltQuery, now: float) -> Iterator[Stuck]:
        """The sources that may be so, each at most so often as it says. ``now``: of ``time.monotonic``. A look at the
        memory only; :meth:`refuse` asks."""
        for uid, source in self._inputs.bounded.items():
            if uid in built.reads and source.is_stuck(now):
                yield source, built.reads[uid]

    def refuse(self, source: BoundedInput | BoundedOffsets, reads: SourceReads) -> None:
        """Raises FrozenFilesMissingError, KafkaRowsGoneError. Takes long: it lists files, or asks the broker."""
        if isinstance(source, BoundedInput):
            source.refuse_missing(unescaped_path(file) for file in list_files(self._context.spark, reads))
            return
        location = self._context.operators[source.uid].location
        known = self._context.topics.get(source.uid, {})
        with suppress(KafkaUnreachableError, KafkaRefusedError):  # the query finds out, too, and may get over it
            why = why_endless(self._context.spark, source.uid, location, reads.options, known, source.remaining)
            if source.is_hopeless(why):
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=why)

    def refuse_made_again(self, built: BuiltQuery) -> None:
        """An attempt that begins again in the driver would read on in the new topic from the offset of the old one.
        Raises KafkaRowsGoneError."""
        for uid, read in built.reads.items():
            why = why_made_again(read.topics, self._context.topics.get(uid, {}))
            if why is not None:
                raise KafkaRowsGoneError(vertex=self._vertex.uid, reason=why)
