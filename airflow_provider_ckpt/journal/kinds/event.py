"""Base classes of all events, and of all parts of the state that events change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HISTORY = 100
"""Most entries of each history in the state: of completed checkpoints, aborted checkpoints, and answered requests."""
LISTED_BY = "listed by"


def listed_by(name: str) -> Mapping[str, str]:
    """Return the metadata for a dict field of the state: field ``name`` of an event → the event."""
    return {LISTED_BY: name}


class JournalEvent:
    """An event: a frozen dataclass whose JSON follows from its fields (``model.json_form``).

    Its ``apply`` changes the :class:`StatePart` in its module. Events are applied in the order of the journal.
    """

    @property
    def decides(self) -> bool:
        """True if the event must be durable before the action that follows it.

        Any other event may wait in the write buffer, and be lost with its driver.
        """
        return True


@dataclass
class StatePart:
    """A part of the state of a job, changed only by the events in the same module. Times are epoch seconds."""

    job_id: str
