"""Joint release of sinks that share a transaction. Each sink's release is requested alone, and the first request
releases all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from airflow_provider_ckpt.jobmaster.release_counts import Counts, told_as


class TogetherReleases:
    """The joint releases of one transaction in one run. Each sink's request returns each of its counts once, even if
    the call for another sink has released it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached: dict[str, int] = {}
        self._untold: dict[str, dict[int, Counts]] = {}

    def carry_out(self, uid: str, checkpoint: int, release: Callable[[], Mapping[str, Counts]]) -> dict[str, int]:
        """Release the transaction up to ``checkpoint``, unless that is done. Return the counts of ``uid`` that no call
        has returned.

        Args:
            release: Function that releases all sinks of the transaction, and returns counts by uid. Its errors are
                raised.
        """
        with self._lock:  # a concurrent call would only wait in the database
            if self._reached.get(uid, 0) < checkpoint:
                for member, counts in release().items():
                    self._reached[member] = checkpoint
                    self._untold.setdefault(member, {})[checkpoint] = counts
            return told_as(checkpoint, self._untold.pop(uid, {}))
