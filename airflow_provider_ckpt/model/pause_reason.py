"""Why a subtask stands still."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.json_form import own_form
from airflow_provider_ckpt.model.tagged import Tagged


class PauseReason:
    """A frozen dataclass, listed below for its JSON; what follows from it is a ``PlanChanges`` in the coordinator."""


@dataclass(frozen=True)
class DropSource(PauseReason):
    """``uid``, a source or an input edge that was read to its end, is to be left out."""

    uid: str


@dataclass(frozen=True)
class Rescale(PauseReason):
    """``vertex``, from which it reads, gets more subtasks: it is to read them, too."""

    vertex: str


@dataclass(frozen=True)
class Reconfigure(PauseReason):
    """Reconfiguration ``number`` changes its vertex."""

    number: int


@dataclass(frozen=True)
class BeginAnew(PauseReason):
    """It goes on in its next attempt, under the plan that it has: what Spark keeps for it has grown, and is short in a
    new one."""


_REASONS: Tagged[PauseReason] = Tagged([DropSource, Rescale, Reconfigure, BeginAnew])
REASON = own_form(_REASONS.to_json, _REASONS.from_json)
"""Metadata of a field that holds a reason."""
