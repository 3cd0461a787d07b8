"""The actions that the TaskMachine requests from a task.

The task carries an action out, and then calls the method of the machine that the action names.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.reports import Report
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.records import EndMode


@dataclass(frozen=True)
class BuildQuery:
    """Action: build the query of ``plan``, then call ``planned``."""

    plan: VertexPlan


@dataclass(frozen=True)
class RunQuery:
    """Action: start the built query, then call ``started``."""


@dataclass(frozen=True)
class PauseQuery:
    """Action: stop the query at a boundary between two micro-batches (R2), then call ``paused_at``."""


@dataclass(frozen=True)
class ReadAvailable:
    """Action: at a batch boundary, restart the query, which then reads what its sources have, and ends.

    Then call ``query_ended``.
    """


@dataclass(frozen=True)
class EndData:
    """Action: at a batch boundary, fire the remaining windows and append the end of data (R11, R12).

    Then call ``data_ended``.
    """

    mode: EndMode


@dataclass(frozen=True)
class EndPartition:
    """Action: append the end of partition to the log, then call ``partition_ended``."""


@dataclass(frozen=True)
class AnnounceEnd:
    """Action: report that published batches up to ``batch_id`` contain all data of source ``uid`` (SourceAtEnd)."""

    uid: str
    batch_id: int


@dataclass(frozen=True)
class PostReport:
    """Action: post ``report`` to the JobMaster."""

    report: Report


Action = BuildQuery | RunQuery | PauseQuery | ReadAvailable | EndData | EndPartition | AnnounceEnd | PostReport
