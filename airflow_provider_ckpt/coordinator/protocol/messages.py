"""The messages to the coordinator: reports of subtasks, results of releases, and requests of users."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.reports import Report
from airflow_provider_ckpt.model.job_request import JobRequest


@dataclass(frozen=True)
class ReleaseDone:
    """Message: the release in ``sink`` succeeded. ``counts``: name, such as ``rows`` → number made visible."""

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
class UpgradeTried:
    """Message: the version of the upgrade ``request`` was tried. ``problem``: why it cannot run; None if it can."""

    request: str
    problem: str | None


@dataclass(frozen=True)
class RunAbandoned:
    """Message from the supervisor of the workers: the run must end, because a subtask will not get a worker."""

    cause: str


Message = Report | ReleaseDone | ReleaseFailed | ReleaseHeld | JobRequest | UpgradeTried | RunAbandoned
