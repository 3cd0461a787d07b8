"""The interface through which the suite of sinks uses the target under test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ckpt.sinks.sink import BoundSink, Handle
from airflow_provider_ckpt.testing.crash import When
from airflow_provider_ckpt.testing.group_conformance import SinkGroup
from airflow_provider_ckpt.testing.released_rows import Damage, Row


class SinkTarget(ABC):
    """An empty target of the sink under test, new for each test."""

    @abstractmethod
    def bind(self, job_id: str = "orders", uid: str = "lake") -> BoundSink: ...

    def shared(self) -> SinkTarget:
        """Return this target, set up so that the sinks of several jobs can add rows to it."""
        return self

    @abstractmethod
    def damage(self, handle: Handle, how: Damage) -> None:
        """Truncate or delete a part of the staged output, as a disk or a foreign process might."""

    @abstractmethod
    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        """Stage the frame. Return True if every byte of it was durable before the handle was returned."""

    @abstractmethod
    def definition(self) -> Mapping[str, Any]:
        """Return the result of :meth:`Sink.definition` for a new sink of the target."""

    @abstractmethod
    def dying(self, at: int, when: When) -> BoundSink:
        """Return a bound sink that raises SimulatedCrash before or after its ``at``-th change of the target, from 1."""

    @abstractmethod
    def refusing(self, handle: Handle) -> BoundSink:
        """Return a bound sink for which the target refuses, permanently, to delete what is staged for ``handle``."""

    @abstractmethod
    def rows(self, spark: SparkSession) -> list[Row]:
        """Return the rows that any reader of the target sees, sorted."""

    @abstractmethod
    def staged(self) -> list[str]:
        """Return the sorted ids of the output that all jobs and sinks have staged, from the target itself."""

    def group(self) -> SinkGroup | None:
        """Return two sinks of this kind that share a transaction; None if ``Sink.not_released_with`` allows none."""
        return None
