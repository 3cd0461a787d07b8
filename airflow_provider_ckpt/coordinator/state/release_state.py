"""State of the releases of completed checkpoints, with one queue for each sink (R9).

Each queue releases one checkpoint at a time, in ascending order. A slow, failing or held sink delays no other sink.

A queue requests only the release of the newest completed checkpoint. This release includes all earlier checkpoints,
even if a driver died during their release (:class:`~airflow_provider_ckpt.sinks.sink.BoundSink`, invariant 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_ckpt.coordinator.state.subtask_table import RestoredState
from airflow_provider_ckpt.model.backoff import backoff

FIRST_BACKOFF = 1.0
"""Seconds from a failed release to the next try. The time doubles with each failure, up to MAX_BACKOFF."""
MAX_BACKOFF = 30.0
GATE_PAUSE = 5.0
"""Seconds before a closed gate that holds a release is polled again."""


class ReleaseQueue:
    """The releases of one sink.

    Args:
        released: the last checkpoint that the sink has released.
        completed: the last completed checkpoint of the job.
        timeout: maximum seconds for which releases may fail while no other sink is released. The run then ends.
    """

    def __init__(self, released: int, completed: int, timeout: float) -> None:
        self.released = released
        self.held_by: str | None = None
        """Sink whose closed gate held the last try: this sink, or a sink in its transaction. None if no gate did."""
        self.is_idle = False
        """True if the last release was empty. Some sinks get rows only with the final checkpoint."""
        self.is_abandoned = False
        """True if no release of the sink is tried again in this run."""
        self._completed = max(released, completed)
        self._requested = 0
        self._is_under_way = False
        self._tries = 0
        self._timeout = timeout
        self._waiting_since: float | None = None
        """Time of the first try since the last success."""
        self._fruitless_since: float | None = None
        """Time of the first try since the last success of any sink."""
        self._retry_at: float | None = None

    @property
    def is_held(self) -> bool:
        return self.held_by is not None

    @property
    def is_behind(self) -> bool:
        return self._completed > self.released

    @property
    def under_way(self) -> int | None:
        return self._requested if self._is_under_way else None

    @property
    def next_try(self) -> float | None:
        """Return when the failed or held release is tried again; None if no release waits for that."""
        return None if self.is_abandoned else self._retry_at

    @property
    def tries(self) -> int:
        """Return the number of tries since the last success, or since a gate last held the release."""
        return self._tries

    @property
    def is_failing(self) -> bool:
        """Return whether the last try failed and no other try is in progress, or the sink is abandoned."""
        return self.is_abandoned or (self._retry_at is not None and not self.is_held)

    def is_exhausted(self, now: float) -> bool:
        since = self._fruitless_since
        return not self._is_under_way and since is not None and now - since >= self._timeout

    def waited(self, now: float) -> float:
        """Return the seconds since the first try of the release that still fails; 0 if no release fails."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def completed(self, checkpoint: int) -> None:
        self._completed = max(self._completed, checkpoint)

    def begin_due(self, now: float) -> int | None:
        """Begin the release that is due, and return its checkpoint; None if no release is due."""
        if not self.is_behind or self._is_under_way or self.is_abandoned:
            return None
        if self._retry_at is not None and now < self._retry_at:
            return None
        self._is_under_way, self._retry_at, self._requested = True, None, self._completed
        self._tries += 1
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        self._fruitless_since = now if self._fruitless_since is None else self._fruitless_since
        return self._requested

    def done(self, checkpoint: int) -> bool:
        """Record that a release succeeded, even if its try counted as failed. Return False for a repetition."""
        if checkpoint != self._requested or checkpoint <= self.released:
            return False
        self.released = checkpoint
        self._is_under_way, self.held_by = False, None
        self._tries, self._retry_at = 0, None
        self._waiting_since = self._fruitless_since = None
        return True

    def failed(self, checkpoint: int, now: float) -> bool:
        """Record that a release failed. Return False if no such release is in progress."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, None
        self._retry_at = now + backoff(self._tries, FIRST_BACKOFF, MAX_BACKOFF)
        return True

    def held(self, checkpoint: int, gate_of: str, now: float) -> bool:
        """Record that a gate holds the release. Return False if no such release is in progress."""
        if self.under_way != checkpoint:
            return False
        self._is_under_way, self.held_by = False, gate_of
        self._tries, self._retry_at = 0, now + GATE_PAUSE
        self._waiting_since = self._fruitless_since = None
        return True

    def others_released(self) -> None:
        """Record that another sink was released. The run is then useful even if this sink's target does not answer."""
        self._fruitless_since = None


REMEMBERED = 100
"""Maximum number of unreleased checkpoints that are remembered, because a gate may be closed for weeks."""


class ReleaseState:
    """The releases of all sinks, by uid. :class:`ReleaseQueue` explains ``timeout``."""

    def __init__(self, sinks: Iterable[str], restored: RestoredState, timeout: float) -> None:
        self.last_released = restored.last_released
        """The last checkpoint that every sink has released."""
        self._completed = list(restored.unreleased)
        """Completed checkpoints above ``last_released``, ascending; at most REMEMBERED."""
        newest = max(self._completed, default=restored.last_released)
        self._queues = {
            uid: ReleaseQueue(max(restored.last_released, restored.sinks_released.get(uid, 0)), newest, timeout)
            for uid in sorted(sinks)
        }
        self._counts: dict[int, dict[str, Mapping[str, int]]] = {}

    def __getitem__(self, sink: str) -> ReleaseQueue:
        return self._queues[sink]

    def __contains__(self, sink: str) -> bool:
        return sink in self._queues

    @property
    def under_way(self) -> dict[str, int]:
        """Return the releases in progress: sink → checkpoint."""
        return {uid: checkpoint for uid, queue in self._queues.items() if (checkpoint := queue.under_way) is not None}

    @property
    def closed_gates(self) -> list[str]:
        """Return the sinks whose closed gates hold releases of completed checkpoints, sorted."""
        held_queues = [queue for queue in self._queues.values() if queue.is_behind and queue.under_way is None]
        return sorted(
            {queue.held_by for queue in held_queues if queue.held_by is not None}
        )  # a release under way polls its gate

    @property
    def next_try(self) -> float | None:
        """Return when the first failed or held release is tried again; None if no release waits for that."""
        moments = [queue.next_try for queue in self._queues.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def backlog(self) -> int:
        """Return the number of completed checkpoints that no sink has released; 0 if no sink counts.

        Sinks that a gate holds, and sinks whose last release was empty, do not count.
        """
        queues = [
            queue for queue in self._queues.values() if not (queue.is_held and queue.is_behind) and not queue.is_idle
        ]
        return min((sum(number > queue.released for number in self._completed) for queue in queues), default=0)

    def has_outstanding(self, *, for_failing: bool) -> bool:
        """Return whether a release is in progress, or must still be tried.

        A release whose last try failed counts only if ``for_failing`` is True. A release that a gate holds does not
        count, unless it is in progress, because the gate may have opened.
        """
        return any(
            queue.under_way is not None
            or (queue.is_behind and not queue.is_held and (for_failing or not queue.is_failing))
            for queue in self._queues.values()
        )

    def completed(self, checkpoint: int) -> None:
        self._completed = [*self._completed, checkpoint][-REMEMBERED:]
        self._counts = {number: by_sink for number, by_sink in self._counts.items() if number >= self._completed[0]}
        for queue in self._queues.values():
            queue.completed(checkpoint)

    def begin_due(self, now: float) -> Iterator[tuple[str, int]]:
        """Begin the releases that are due, and yield (sink, checkpoint) of each."""
        for uid, queue in self._queues.items():
            checkpoint = queue.begin_due(now)
            if checkpoint is not None:
                yield uid, checkpoint

    def done(self, sink: str, checkpoint: int, counts: Mapping[str, int]) -> bool:
        """Record that a release succeeded. Return False if the answer is a repetition."""
        if not self._queues[sink].done(checkpoint):
            return False
        self._counts.setdefault(checkpoint, {})[sink] = counts
        self._queues[sink].is_idle = not counts
        if counts:
            for uid, queue in self._queues.items():
                if uid != sink:
                    queue.others_released()
        return True

    def advance(self) -> tuple[int, dict[str, Mapping[str, int]]] | None:
        """Return (newest checkpoint that all sinks have released, sink → counts); None if already returned."""
        reached = min((queue.released for queue in self._queues.values()), default=max(self._completed, default=0))
        released = [number for number in self._completed if number <= reached]
        if not released:
            return None
        self.last_released = released[-1]
        self._completed = self._completed[len(released) :]
        counts = self._counts.get(released[-1], {})
        self._counts = {number: by_sink for number, by_sink in self._counts.items() if number > released[-1]}
        return released[-1], counts
