"""Processes that end in good order on a signal: a worker and a standby worker."""

from __future__ import annotations

from typing import Protocol


class CanLeave(Protocol):
    def leave(self) -> None:
        """Request an early end at which no work is lost; any thread."""
