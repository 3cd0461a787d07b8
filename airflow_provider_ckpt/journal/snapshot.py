"""The state itself as an event, from a compaction."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.json_form import own_form
from airflow_provider_ckpt.model.limits import Instant


@dataclass(frozen=True)
class StateSnapshot(JournalEvent):
    """The fold of all events before it, made by a compaction: the head of the journal moves to its entry,
    which holds nothing else."""

    state: JobState = field(metadata=own_form(state_to_json, state_from_json))
    at: Instant

    def apply(self, state: JobState) -> None:
        """The snapshot's state goes over into ``state``: it is applied once."""
        damage = state.damage
        state.__dict__.update(self.state.__dict__)
        state.damage = damage
