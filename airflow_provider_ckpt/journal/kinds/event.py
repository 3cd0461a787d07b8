"""Base classes of all events, and of all parts of the state that events change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HISTORY = 100
"""Maximum length of each history in the state, for example of completed checkpoints or of answered requests."""
LISTED_BY = "listed by"


def listed_by(name: str) -> Mapping[str, str]:
    """Return the metadata for a dict field of the state that holds events, with their field ``name`` as key."""
    return {LISTED_BY: name}


class JournalEvent:
    """An event: a frozen dataclass whose JSON follows from its fields (``model.json_form``).

    ``apply`` changes the :class:`StatePart` that the same module defines. Events are applied in the order of the
    journal.
    """

    @property
    def decides(self) -> bool:
        """True if the event must be durable before the action that follows it.

        False if the event may wait in the write buffer, and be lost if the driver dies.
        """
        return True


@dataclass
class StatePart:
    """A part of the state of a job, changed only by the events in the same module. Times are epoch seconds."""

    job_id: str
