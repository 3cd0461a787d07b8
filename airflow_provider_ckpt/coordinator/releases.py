"""The releases of completed checkpoints, sink by sink. A slow, failing or held sink delays no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_ckpt.coordinator.release_queue import ReleaseQueue
from airflow_provider_ckpt.coordinator.subtask_table import RestoredState

REMEMBERED = 100
"""Most unreleased checkpoints that are remembered.

A gate may be closed for weeks, and the release of a later checkpoint covers the earlier ones.
"""


class Releases:
    """The releases of all sinks. ``sinks`` are their uids. ``timeout`` is explained in :class:`ReleaseQueue`."""

    def __init__(self, sinks: Iterable[str], restored: RestoredState, timeout: float) -> None:
        self.last_released = restored.last_released
        """The last checkpoint that is released in every sink, together with all before it."""
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
        """Return the releases in progress: sink -> checkpoint."""
        return {uid: at for uid, queue in self._queues.items() if (at := queue.under_way) is not None}

    @property
    def closed_gates(self) -> list[str]:
        """Return the sinks whose gates hold back a completed checkpoint, in the sink itself or in others of its
        transaction.
        """
        held = [queue for queue in self._queues.values() if queue.is_behind and queue.under_way is None]
        return sorted({queue.held_by for queue in held if queue.held_by is not None})  # one under way polls its gate

    @property
    def next_try(self) -> float | None:
        """Return when the next failed or held release is tried again, or None."""
        moments = [queue.next_try for queue in self._queues.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def backlog(self) -> int:
        """Return how many completed checkpoints no sink has released.

        A sink that a gate holds does not count, nor does a sink whose last release was empty.
        """
        going = [one for one in self._queues.values() if not (one.is_held and one.is_behind) and not one.is_idle]
        return min((sum(number > queue.released for number in self._completed) for queue in going), default=0)

    def waits(self, *, for_failing: bool) -> bool:
        """Return whether a release is outstanding, apart from releases that a gate holds.

        A release in progress counts, because its gate may have opened.

        Args:
            for_failing: whether to count a sink whose last try failed.
        """
        return any(
            queue.under_way is not None
            or (queue.is_behind and not queue.is_held and (for_failing or not queue.is_failing))
            for queue in self._queues.values()
        )

    def completed(self, checkpoint: int) -> None:
        self._completed = [*self._completed, checkpoint][-REMEMBERED:]
        self._counts = {number: of for number, of in self._counts.items() if number >= self._completed[0]}
        for queue in self._queues.values():
            queue.completed(checkpoint)

    def ask(self, now: float) -> Iterator[tuple[str, int]]:
        """Yield the releases to begin now: sink and checkpoint."""
        for uid, queue in self._queues.items():
            checkpoint = queue.ask(now)
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
                    queue.others_went_on()
        return True

    def advance(self) -> tuple[int, dict[str, Mapping[str, int]]] | None:
        """Return the newest checkpoint that every sink now has, and the counts of that checkpoint by sink.

        Each checkpoint is returned at most once. Return None if there is no new one.
        """
        reached = min((queue.released for queue in self._queues.values()), default=max(self._completed, default=0))
        found = [number for number in self._completed if number <= reached]
        if not found:
            return None
        self.last_released = found[-1]
        self._completed = self._completed[len(found) :]
        counts = self._counts.get(found[-1], {})
        self._counts = {number: of for number, of in self._counts.items() if number > found[-1]}
        return found[-1], counts
