"""Policies that watch a running job and change its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.errors import BadControllerError
from airflow_provider_ckpt.job.options.units import Duration, parse_duration
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.model.progress import BatchProgress
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class QueryMetrics:
    """Metrics of a query since the last call of the controller.

    If ``batches`` is empty and ``is_idle`` is False, a micro-batch may be running, so the query's load is unknown.

    Args:
        batches: Micro-batches that ended since the last call, oldest first.
        is_idle: True if the query has reported that it has nothing to do, and no micro-batch has ended after that
            report.
        settings: Settings of the query that changes have set. A setting without a change is None.
    """

    batches: tuple[BatchProgress, ...]
    is_idle: bool
    settings: VertexSettings

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    @property
    def batch_time(self) -> float | None:
        """Mean duration of the batches, in seconds; None without batches."""
        return sum(batch.duration for batch in self.batches) / len(self.batches) if self.batches else None


@dataclass(frozen=True)
class SplitMetrics:
    """Progress of a source with splits. Of ``total`` splits, ``done`` are finished and ``left`` are not assigned.

    ``readers`` subtasks read the source.
    """

    total: int
    done: int
    left: int
    readers: int


@dataclass(frozen=True)
class JobMetrics:
    """Metrics of a running job since the last call of the controller.

    Args:
        elapsed: Seconds since the last call, or since the end of the last change.
        queries: Uid of a running query's last operator -> the query's metrics.
        sources: Uid of a source with splits -> its progress.
        operators: Uid of an operator -> uid of its query's last operator.
    """

    elapsed: float
    queries: Mapping[str, QueryMetrics]
    sources: Mapping[str, SplitMetrics]
    operators: Mapping[str, str] = field(default_factory=dict)

    def query_of(self, uid: str) -> QueryMetrics | None:
        """Return the metrics of the query that runs operator ``uid``, or None if no query runs it."""
        return self.queries.get(self.operators.get(uid, uid))


class Controller:
    """Base class of a policy that watches a running job and changes its settings, see ``Job(controllers=[…])``.

    The JobMaster's loop calls the controller, so a call must return at once and use nothing but its arguments.
    A controller that raises is switched off for the run, and the job continues. No call is made during a change.

    Args:
        every: Seconds between two calls.
        cool_down: Seconds without calls after each change of the job, including changes by users and under previous
            drivers.
    """

    every: float = 10.0
    cool_down: float = 60.0

    def __init__(self, *, every: Duration = "10s", cool_down: Duration = "1m") -> None:
        self.every, self.cool_down = parse_duration(every, "every"), parse_duration(cool_down, "cool_down")
        if self.every <= 0:
            raise BadControllerError(controller=self.name, problem="every is above 0")

    @property
    def name(self) -> str:
        """Name of the controller in the journal's records of its changes."""
        return type(self).__name__

    @property
    def operators(self) -> Sequence[str]:
        """Uids of the operators that the controller changes. A job that lacks one of these operators is refused."""
        return ()

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        """Return the change that the job needs, or None. ``now`` is in seconds of a monotonic clock.

        A change that was refused or failed is not requested again for a while, even if it is returned again.
        """
        raise NotImplementedError
