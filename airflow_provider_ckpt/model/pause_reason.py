"""Reasons for which a subtask pauses."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.json_form import own_form
from airflow_provider_ckpt.model.tagged import Tagged


class PauseReason:
    """A reason to pause: one of the frozen dataclasses below. The coordinator's ``PlanChanges`` define its effect."""


@dataclass(frozen=True)
class DropSource(PauseReason):
    """The removal of ``uid``, a source or an input edge that was read to its end."""

    uid: str


@dataclass(frozen=True)
class Rescale(PauseReason):
    """New subtasks of ``vertex``. The subtask that pauses reads this vertex, and must read the new subtasks, too."""

    vertex: str


@dataclass(frozen=True)
class Reconfigure(PauseReason):
    """Reconfiguration ``number``, which changes the subtask's vertex."""

    number: int


@dataclass(frozen=True)
class ReplaceAttempt(PauseReason):
    """A restart with the same plan. The next attempt has a short log, because Spark's log of an input is too large."""


_REASONS: Tagged[PauseReason] = Tagged([DropSource, Rescale, Reconfigure, ReplaceAttempt])
REASON = own_form(_REASONS.to_json, _REASONS.from_json)
"""Metadata of a field that contains a reason."""
