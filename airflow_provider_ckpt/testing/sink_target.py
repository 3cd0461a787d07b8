"""What the suite of sinks works on: a target of the sink under test, seen from outside."""

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
        """The same target, in the mode in which sinks of several jobs add to what is there."""
        return self

    @abstractmethod
    def damage(self, handle: Handle, how: Damage) -> None:
        """Cut a part of what was staged to nothing, or delete it, as a disk or a stranger does."""

    @abstractmethod
    def synced(self, spark: SparkSession, frame: DataFrame) -> bool:
        """Stage the frame; whether every byte of it was made durable before the handle was returned."""

    @abstractmethod
    def definition(self) -> Mapping[str, Any]:
        """What :meth:`Sink.definition` of a sink newly made for the target says."""

    @abstractmethod
    def dying(self, at: int, when: When) -> BoundSink:
        """Another bound sink, whose process dies (SimulatedCrash) before or after its ``at``-th change of the
        target, counted from 1."""

    @abstractmethod
    def rows(self, spark: SparkSession) -> list[Row]:
        """What any reader of the target sees, sorted."""

    @abstractmethod
    def staged(self) -> list[str]:
        """Ids of what is staged in the target by all jobs and sinks, sorted, by looking into it."""

    def group(self) -> SinkGroup | None:
        """Two sinks of this kind that share a transaction; None if ``Sink.not_released_with`` lets none do that."""
        return None
