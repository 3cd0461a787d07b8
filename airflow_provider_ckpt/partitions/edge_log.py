"""The log of a producer as one edge reads it, without batches published before the edge existed (R7)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from airflow_provider_ckpt.model.graph import layout_of
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch, Record


class EdgeLog:
    """A :class:`LogReader` that shows batches from before the edge existed without files.

    A consumer may be added to a job that continues. The data of some earlier batches may already be deleted, so the new
    consumer starts after all of them. It passes them like batches without data.

    Args:
        log: The log of the producer.
        since: The layout of the producer's partition in which the edge was added.
    """

    def __init__(self, log: LogReader, since: int) -> None:
        self._log, self._since = log, since

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def position(self) -> int:
        return self._log.position

    @property
    def has_ended(self) -> bool:
        return self._log.has_ended

    def records(self, start: int = 0) -> list[Numbered]:
        return [(number, self._as_given(record)) for number, record in self._log.records(start)]

    def forget(self, head: int, kept: Container[int]) -> None:
        self._log.forget(head, kept)

    def _as_given(self, record: Record) -> Record:
        if not isinstance(record, Batch) or all(layout_of(file.path) >= self._since for file in record.files):
            return record
        return replace(record, files=())
