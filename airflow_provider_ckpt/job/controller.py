"""Policies that watch a running job, and change it by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.errors import BadControllerError
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.job.units import Duration, parse_duration
from airflow_provider_ckpt.model.batch_progress import BatchProgress
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class QueryMetrics:
    """A query since the last look. ``batches``: what it has done in it, oldest first; ``is_idle``: it has said that it
    had nothing to do, and has done nothing since. With neither, nothing is known: a micro-batch may be under way.
    ``settings``: what is changed of it by now."""

    batches: tuple[BatchProgress, ...]
    is_idle: bool
    settings: VertexSettings

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.batches)

    @property
    def batch_time(self) -> float | None:
        """Mean, in seconds."""
        return sum(one.duration for one in self.batches) / len(self.batches) if self.batches else None


@dataclass(frozen=True)
class SplitMetrics:
    """A source with splits: how many it has, are done, and are not handed out; ``readers``: subtasks that read them."""

    total: int
    done: int
    left: int
    readers: int


@dataclass(frozen=True)
class JobMetrics:
    """``elapsed``: seconds since the last look, or since the last change came to its end. ``queries``: by the uid of
    the query's last operator, of those that run; ``sources``: those with splits, by uid; ``operators``: operator -> uid
    of the query that it runs in."""

    elapsed: float
    queries: Mapping[str, QueryMetrics]
    sources: Mapping[str, SplitMetrics]
    operators: Mapping[str, str] = field(default_factory=dict)

    def query_of(self, uid: str) -> QueryMetrics | None:
        """That in which the operator runs; None if none does, or none any more."""
        return self.queries.get(self.operators.get(uid, uid))


class Controller:
    """Base class of a policy, given as ``Job(controllers=[…])``. It is asked in the loop that coordinates the job: it
    answers at once, and looks at nothing but what it is given. One that raises is switched off for the run, and the job
    goes on.

    ``every``: seconds from one look to the next; ``cool_down``: seconds in which it is not asked behind a change of the
    job, whoever made it, also behind one that a driver before has made. It is never asked while a change is under way.
    """

    every: float = 10.0
    cool_down: float = 60.0

    def __init__(self, *, every: Duration = "10s", cool_down: Duration = "1m") -> None:
        self.every, self.cool_down = parse_duration(every, "every"), parse_duration(cool_down, "cool_down")
        if self.every <= 0:
            raise BadControllerError(controller=self.name, problem="every is above 0")

    @property
    def name(self) -> str:
        """Under which the journal has what it changes."""
        return type(self).__name__

    @property
    def operators(self) -> Sequence[str]:
        """Those that it is about. A job that has not all of them is refused."""
        return ()

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        """What is to be changed; None: nothing. ``now``: seconds, which never go back. What was refused, or came to
        nothing, is not asked for again for a while, however often it is returned."""
        raise NotImplementedError
