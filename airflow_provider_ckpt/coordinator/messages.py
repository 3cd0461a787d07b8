"""What the coordinator is told: the reports of subtasks, how a release went, and what somebody asks of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.coordinator.reports import Report
from airflow_provider_ckpt.model.vertex_settings import VertexSettings


@dataclass(frozen=True)
class ReleaseDone:
    """``counts``: of what became visible in ``sink``."""

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
    """``sink`` is not released, as a gate is closed."""

    epoch: int
    checkpoint: int
    sink: str
    gate_of: str
    """The sink whose gate it is: itself, or one that shares its transaction."""


@dataclass(frozen=True)
class StopRequested:
    """``stop``: savepoint, release, exit, sources not finished. ``drain``: live sources are read up to what is there,
    everything in flight is processed, final checkpoint, FINISHED."""

    mode: Literal["stop", "drain"]
    request: str | None = None
    """The name under which it is answered; None: nobody asks for an answer."""
    leaves: bool = False
    """Of a stop: the job has to leave (its time is over, its process is told to go), also when no savepoint
    can be had. Else a stop that fails leaves it running."""
    at_once: bool = False
    """Of a drain: live sources end where they stand."""


@dataclass(frozen=True)
class RescaleRequested:
    """``parallelism`` subtasks are to read the splits of source ``uid`` that are left."""

    uid: str
    parallelism: int
    request: str | None = None
    """As in :class:`StopRequested`."""


@dataclass(frozen=True)
class ReconfigureRequested:
    """``changes``: by operator; None, or empty, is what is to stay as it is."""

    changes: Mapping[str, VertexSettings]
    request: str | None = None
    """As in :class:`StopRequested`."""
    by: str | None = None
    """The controller of the job that asks, and ``why``."""
    why: str | None = None


@dataclass(frozen=True)
class UpgradeRequested:
    """The job is to go on as another version of it, which ``request`` names."""

    request: str


@dataclass(frozen=True)
class UpgradeTried:
    """``problem``: what speaks against that version; None: nothing."""

    request: str
    problem: str | None


@dataclass(frozen=True)
class RunGivenUp:
    """Whoever is in charge of the workers knows that a subtask gets none any more: nobody need wait for it."""

    cause: str


Message = (
    Report
    | ReleaseDone
    | ReleaseFailed
    | ReleaseHeld
    | StopRequested
    | RescaleRequested
    | ReconfigureRequested
    | UpgradeRequested
    | UpgradeTried
    | RunGivenUp
)
