"""What completed checkpoints have been released, sink by sink: one that is slow, failing or held holds up no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_ckpt.coordinator.release_queue import ReleaseQueue
from airflow_provider_ckpt.coordinator.subtask_table import RestoredState

REMEMBERED = 100
"""So many unreleased checkpoints are remembered: a gate may be closed for weeks, and what a later one releases covers
what those before it would have."""


class Releases:
    """``sinks``: uids of all of the job. ``timeout``: see :class:`ReleaseQueue`."""

    def __init__(self, sinks: Iterable[str], restored: RestoredState, timeout: float) -> None:
        self.last_released = restored.last_released
        """Everything up to it is released, in every sink."""
        self._completed = list(restored.unreleased)
        """The last ones above, ascending."""
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
        """Sink -> checkpoint."""
        return {uid: at for uid, queue in self._queues.items() if (at := queue.under_way) is not None}

    @property
    def closed_gates(self) -> list[str]:
        """The sinks whose gates keep them, or others of their transaction, from a completed checkpoint."""
        held = [queue for queue in self._queues.values() if queue.is_behind and queue.under_way is None]
        return sorted({queue.held_by for queue in held if queue.held_by is not None})  # under way: it is being asked

    @property
    def next_try(self) -> float | None:
        """When one that failed, or is held, is asked for again."""
        moments = [queue.next_try for queue in self._queues.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def backlog(self) -> int:
        """So many completed checkpoints lack in every sink that no gate holds and that is released anything at all."""
        going = [one for one in self._queues.values() if not (one.is_held and one.is_behind) and not one.is_idle]
        return min((sum(number > queue.released for number in self._completed) for queue in going), default=0)

    def waits(self, *, for_failing: bool) -> bool:
        """Whether something is to be released yet, apart from what gates hold; what is under way counts: its gate may
        have opened. ``for_failing``: a sink whose last try failed counts."""
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
        """What to release now: sink and checkpoint."""
        for uid, queue in self._queues.items():
            checkpoint = queue.ask(now)
            if checkpoint is not None:
                yield uid, checkpoint

    def done(self, sink: str, checkpoint: int, counts: Mapping[str, int]) -> bool:
        """False if nobody waits for this answer."""
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
        """The newest checkpoint that by now every sink has, and was not told yet; with it, what was counted at its own
        number."""
        reached = min((queue.released for queue in self._queues.values()), default=max(self._completed, default=0))
        found = [number for number in self._completed if number <= reached]
        if not found:
            return None
        self.last_released = found[-1]
        self._completed = self._completed[len(found) :]
        counts = self._counts.get(found[-1], {})
        self._counts = {number: of for number, of in self._counts.items() if number > found[-1]}
        return found[-1], counts
