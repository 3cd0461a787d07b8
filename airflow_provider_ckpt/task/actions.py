"""What a task has to do next, as the machine says it. Whoever runs the task carries it out and says that it is done."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.reports import Report
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import EndMode


@dataclass(frozen=True)
class BuildQuery:
    """Build the query of ``plan``; then call ``planned``."""

    plan: VertexPlan


@dataclass(frozen=True)
class RunQuery:
    """Start the query that was built; then call ``started``."""


@dataclass(frozen=True)
class StandStill:
    """Bring the query to a boundary between two micro-batches (R2); then call ``stood_still``."""


@dataclass(frozen=True)
class ReadWhatIsThere:
    """Come to a boundary, and start the query again so that it reads what its sources have by now, and ends by itself;
    then call ``ran_out``."""


@dataclass(frozen=True)
class EndData:
    """Come to a boundary, fire what is left, put the end of data into the log (R11, R12); then call ``data_ended``."""

    mode: EndMode


@dataclass(frozen=True)
class EndPartition:
    """Put end of partition into the log; then call ``partition_ended``."""


@dataclass(frozen=True)
class AnnounceEnd:
    """Tell the coordinator that published batches up to ``batch_id`` cover the whole of ``uid`` (SourceAtEnd); whether
    it can be left out is for whoever knows the query to say."""

    uid: str
    batch_id: int


@dataclass(frozen=True)
class Tell:
    """Post ``report``."""

    report: Report


Action = BuildQuery | RunQuery | StandStill | ReadWhatIsThere | EndData | EndPartition | AnnounceEnd | Tell
