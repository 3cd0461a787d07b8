"""The effects that the coordinator requests from the JobMaster.

Effects are carried out in order, each after the success of the previous effect. A failed journal append stops the job.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.commands import Command
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.job_request import UpgradeRequest
from airflow_provider_ckpt.model.job_status import RunEnd


@dataclass(frozen=True)
class Append:
    """Effect: append the event to the journal. The event is durable before the next effect is carried out."""

    event: Event


@dataclass(frozen=True)
class NotifyCompleted:
    """Effect: delete data that only older checkpoints need, because this checkpoint is in the journal as completed."""

    checkpoint: int


@dataclass(frozen=True)
class Release:
    """Effect: release everything staged for ``sink`` up to the checkpoint's positions.

    The answer is ReleaseDone, ReleaseFailed or ReleaseHeld. Releases of one sink ascend, one at a time (R9).
    """

    checkpoint: int
    sink: str


@dataclass(frozen=True)
class TryUpgrade:
    """Effect: load and try the version that ``request`` names, while the job runs. The answer is UpgradeTried."""

    request: UpgradeRequest


@dataclass(frozen=True)
class EndJob:
    """Effect: stop all queries and end the run. If ``upgrade`` is not None, the job then resumes as another version.
    ``upgrade`` is the name of the upgrade request."""

    status: RunEnd
    cause: str | None = None
    upgrade: str | None = None


@dataclass(frozen=True)
class Notice:
    """Effect: log a message that is not journaled. ``traceback`` is set if the user's code failed."""

    message: str
    is_warning: bool = False
    traceback: str | None = None


Effect = Command | Append | NotifyCompleted | Release | TryUpgrade | EndJob | Notice
