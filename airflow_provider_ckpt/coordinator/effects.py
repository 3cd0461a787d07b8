"""What the coordinator asks for.

Effects are carried out in order; one is carried out only after those before it succeeded (a journal append that fails
stops the job).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.commands import Command
from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.model.job_status import RunEnd


@dataclass(frozen=True)
class Append:
    """Append the event to the journal; a decision is durable before the next effect."""

    event: Event


@dataclass(frozen=True)
class NotifyCompleted:
    """The checkpoint is complete in the journal: what only older ones need can go. Tasks need no word of it: they hold
    nothing back for it, and whoever releases is asked to."""

    checkpoint: int


@dataclass(frozen=True)
class Release:
    """Release everything staged for ``sink`` up to the checkpoint's positions; answered by ReleaseDone, ReleaseFailed
    or ReleaseHeld. Never two at once of one sink, strictly ascending (R9)."""

    checkpoint: int
    sink: str


@dataclass(frozen=True)
class TryUpgrade:
    """Load and try the version that ``request`` names, while the job runs; answered by UpgradeTried."""

    request: str


@dataclass(frozen=True)
class EndJob:
    """Stop all queries and leave. ``upgrade``: the request for which the job goes on at once, as another version, and
    which that one answers; nothing is told of an end then."""

    status: RunEnd
    cause: str | None = None
    upgrade: str | None = None


@dataclass(frozen=True)
class Notice:
    """Something to be told, that is in no event. ``traceback``: of the user's own code, if it was that."""

    message: str
    is_warning: bool = False
    traceback: str | None = None


Effect = Command | Append | NotifyCompleted | Release | TryUpgrade | EndJob | Notice
