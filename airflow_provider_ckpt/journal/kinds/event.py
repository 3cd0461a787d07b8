"""What every event has, and every part of the state that events change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HISTORY = 100
"""How many completed, and how many aborted, checkpoints the state remembers."""
ADDED = MappingProxyType({"state": "added"})
"""Metadata of a field of the state that came later in version 1 of its document, and is always written. One that is
left out while it is empty is LATER (``model.json_form``)."""
LISTED_BY = "listed by"


def listed_by(name: str) -> Mapping[str, str]:
    """Metadata of a field of the state that holds events by one of their fields: in the document they are a list."""
    return {LISTED_BY: name}


class JournalEvent:
    """A frozen dataclass. Its JSON follows from its fields (``model.json_form``); ``apply`` folds it into that part of
    the state which it changes. Events are applied in the order of the journal, each once."""

    @property
    def decides(self) -> bool:
        """Whether something is done because of it that must not be done twice, or otherwise: then it is durable
        before. What decides nothing may wait in the write buffer, and be lost with its driver."""
        return True


@dataclass
class StatePart:
    """A part of the state of a job, changed by the events beside it only. Times are epoch seconds."""

    job_id: str
