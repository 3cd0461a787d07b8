"""Base classes of all events, and of all parts of the state that events change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HISTORY = 100
"""Most completed checkpoints, aborted checkpoints and answered requests, each, that the state remembers."""
LISTED_BY = "listed by"


def listed_by(name: str) -> Mapping[str, str]:
    """Return the metadata of a state field of type: value of the event's field ``name`` → event."""
    return {LISTED_BY: name}


class JournalEvent:
    """An event: a frozen dataclass whose JSON follows from its fields (``model.json_form``).

    Its ``apply`` changes its part of the state. Events are applied in the order of the journal.
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
