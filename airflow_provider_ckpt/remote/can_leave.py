"""What a signal ends in good order: a worker, or one that stands by."""

from __future__ import annotations

from typing import Protocol


class CanLeave(Protocol):
    def leave(self) -> None:
        """Have it end soon, so that nothing need be done again; any thread."""
