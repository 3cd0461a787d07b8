"""The event that holds the whole state, written by a compaction."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.state_json import state_from_json, state_to_json
from airflow_provider_ckpt.model.json_form import own_form
from airflow_provider_ckpt.model.limits import Instant


@dataclass(frozen=True)
class StateSnapshot(JournalEvent):
    """The state of the job after all earlier events. A compaction writes it as the only event of an entry, and moves
    the head of the journal to that entry."""

    state: JobState = field(metadata=own_form(state_to_json, state_from_json))
    at: Instant

    def apply(self, state: JobState) -> None:
        """Move the snapshot's state into ``state``. It can be applied only once."""
        damage = state.damage
        state.__dict__.update(self.state.__dict__)
        state.damage = damage
