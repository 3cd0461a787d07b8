"""The messages to the coordinator: reports of subtasks, results of releases, and requests of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.coordinator.protocol.reports import Report
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class ReleaseDone:
    """Message: the release in ``sink`` succeeded. ``counts`` has the counts of its visible output."""

    epoch: int
    checkpoint: int
    sink: str
    counts: dict[str, int]


@dataclass(frozen=True)
class ReleaseFailed:
    epoch: int
    checkpoint: int
    sink: str
    cause: str
    terminal: bool = False


@dataclass(frozen=True)
class ReleaseHeld:
    """Message: ``sink`` was not released, because a gate is closed."""

    epoch: int
    checkpoint: int
    sink: str
    gate_of: str
    """The sink with the closed gate: ``sink`` itself, or another sink of its transaction."""


@dataclass(frozen=True)
class StopRequested:
    """Request to stop or to drain the job.

    ``stop``: a savepoint is taken and released, the driver exits, and no source is finished. ``drain``: live sources
    are read up to what is there now, everything in flight is processed, a final checkpoint is taken, and the job is
    FINISHED.
    """

    mode: Literal["stop", "drain"]
    request: str | None = None
    """The name of the request, which the answer repeats. None if no answer is needed."""
    leaves: bool = False
    """For a stop: the job must leave even if no savepoint can be taken, because its time is over or its process must
    exit. If False, a failed stop leaves the job running.
    """
    at_once: bool = False
    """For a drain: live sources end without further reading."""


@dataclass(frozen=True)
class ReconfigureRequested:
    """Request to change settings, given by operator. A setting that is None or empty stays unchanged.

    A rescale is the change of the parallelism of one source with splits.
    """

    changes: Mapping[str, VertexSettings]
    request: str | None = None
    """The name of the request, as in :class:`StopRequested`."""
    by: str | None = None
    """The controller that requests the change. ``why`` is its reason."""
    why: str | None = None


@dataclass(frozen=True)
class UpgradeRequested:
    """Request to resume the job as another version, which ``request`` names."""

    request: str


@dataclass(frozen=True)
class UpgradeTried:
    """Message: the version was tried. ``problem`` is why it cannot run, or None if it can."""

    request: str
    problem: str | None


@dataclass(frozen=True)
class RunGivenUp:
    """Message from the supervisor of the workers: a subtask will not get a worker, so waiting for it is useless."""

    cause: str


Message = (
    Report
    | ReleaseDone
    | ReleaseFailed
    | ReleaseHeld
    | StopRequested
    | ReconfigureRequested
    | UpgradeRequested
    | UpgradeTried
    | RunGivenUp
)
