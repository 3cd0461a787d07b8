"""Sinks that share a transaction are each asked for by themselves: who comes first releases for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from airflow_provider_ckpt.jobmaster.release_counts import Counts, told_as


class TogetherReleases:
    """Of one transaction in one run. Whoever asks for a sink is told each count once, also of what another one's call
    has released."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[str, int] = {}
        self._untold: dict[str, dict[int, Counts]] = {}

    def carry_out(self, uid: str, checkpoint: int, release: Callable[[], Mapping[str, Counts]]) -> dict[str, int]:
        """``release``: of all that share ``uid``'s transaction, up to ``checkpoint``; counts by uid. Not called if that
        is done. What it raises is raised."""
        with self._lock:  # a second one would only wait in the database
            if self._reached.get(uid, 0) < checkpoint:
                for member, counts in release().items():
                    self._reached[member] = checkpoint
                    self._untold.setdefault(member, {})[checkpoint] = counts
            return told_as(checkpoint, self._untold.pop(uid, {}))
