"""A producer's log as one edge reads it: what was published before the edge was there is not for it (R7)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from airflow_provider_ckpt.model.graph import layout_of
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch, Record


class EdgeLog:
    """``log``: of the producer; ``since``: the layout of its partition with which the edge has come. A job that goes on
    with one consumer more has batches of before, of which some data may be given back already, and the new consumer
    begins behind them, whatever entry it is shown first. It passes them as it does those without data. A
    :class:`LogReader`."""

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
