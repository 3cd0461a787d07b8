"""Sinks that share a transaction are each asked for by themselves: who comes first releases for all of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping

Counts = Mapping[str, int]


class TogetherReleases:
    """Of one transaction in one run. Whoever asks for a sink is told each count once, also of what another one's call
    has released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[str, int] = {}
        self._untold: dict[str, Counter[str]] = {}

    def carry_out(self, uid: str, checkpoint: int, release: Callable[[], Mapping[str, Counts]]) -> dict[str, int]:
        """``release``: of all that share ``uid``'s transaction, up to ``checkpoint``; counts by uid. Not called if that
        is done. What it raises is raised."""
        with self._lock:  # a second one would only wait in the database
            if self._reached.get(uid, 0) < checkpoint:
                for member, counts in release().items():
                    self._note(member, checkpoint, counts)
            return dict(self._untold.pop(uid, {"rows": 0}))

    def _note(self, member: str, checkpoint: int, counts: Counts) -> None:
        """A sink that got no rows need not be at this checkpoint (:meth:`BoundSink.last_released`): rows of before that
        were told as its would be missed there by the next start."""
        self._reached[member] = checkpoint
        untold = self._untold.pop(member, Counter[str]()) if counts["rows"] else Counter[str]()
        untold.update(counts)
        self._untold[member] = untold
