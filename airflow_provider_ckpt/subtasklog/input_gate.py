"""The barriers of a consumer's inputs: when the consumer takes a snapshot, and which batches it may read.

The gate gets the records of every input log in order (:meth:`InputGate.offer`) and returns the actions to take, in
order (:meth:`InputGate.poll`). It does no I/O and has no clock.

1. Data after barrier *n* is fed only after the consumer took its snapshot of *n*. So a published batch can never be
   ahead of a barrier that is not in its subtask's snapshot (the cut, R19).
2. Unaligned: the snapshot of *n* is due as soon as barrier *n* is the next record of any input. The records between the
   consumer's position and the barrier are durable in the partition, so nothing has to be copied.
3. Aligned: an input at barrier *n* waits until every other input is at barrier *n* or has ended. It also waits until
   the consumer has read all fed batches (R24). After the timeout the gate becomes unaligned.
4. The gate skips barriers of earlier epochs, and barriers of checkpoints up to the last snapshot (R10).
5. An input whose rows replace earlier rows is fed one batch at a time, because two versions of a row in one batch would
   have no order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.subtasklog.records import Barrier, Batch, EndOfPartition, Record


@dataclass(frozen=True)
class TakeSnapshot:
    """The action to append barrier ``checkpoint`` to the consumer's log now."""

    checkpoint: int


@dataclass(frozen=True)
class FeedBatch:
    """The action to feed ``batch``, at ``position`` in the log of input ``edge``, to the query."""

    edge: str
    position: int
    batch: Batch


@dataclass(frozen=True)
class InputPassed:
    """The action to record that all data of ``edge`` below ``position`` was fed. ``ended``: no record follows."""

    edge: str
    position: int
    ended: bool


GateAction = TakeSnapshot | FeedBatch | InputPassed


@dataclass
class _Input:
    queue: deque[tuple[int, Record]] = field(default_factory=deque)
    passed: int = 0
    ended: bool = False
    held_by: int | None = None
    """Checkpoint whose barrier is at the head of the queue; None without such a barrier."""


class InputGate:
    """The gate of one consumer.

    Args:
        epoch: The epoch of the current coordinator.
        aligned: True to align barriers (rule 3).
        aligned_timeout: Seconds of alignment after which the gate becomes unaligned; None for no timeout.
        one_by_one: Edges that are fed one batch at a time.
    """

    def __init__(
        self,
        edges: Iterable[str],
        *,
        epoch: int,
        aligned: bool = False,
        aligned_timeout: float | None = None,
        one_by_one: Collection[str] = (),
    ) -> None:
        self._one_by_one = frozenset(one_by_one)
        self._inputs = {edge: _Input() for edge in edges}
        self._epoch = epoch
        self._aligned = aligned
        self._timeout = aligned_timeout
        self._snapshotted = 0
        self._subsumed = 0
        self._since: dict[int, float] = {}

    def add(self, edge: str) -> None:
        """Add an input, before its first record is offered. An existing input stays as it is."""
        self._inputs.setdefault(edge, _Input())

    def offer(self, edge: str, position: int, record: Record) -> None:
        self._inputs[edge].queue.append((position, record))

    def snapshotted(self, checkpoint: int) -> None:
        """Record a snapshot that the consumer took without a TakeSnapshot action."""
        self._snapshotted = max(self._snapshotted, checkpoint)

    def poll(self, now: float, unread: Mapping[str, bool]) -> list[GateAction]:
        """Return the due actions in order. ``unread``: edge → True if the consumer has not published all fed data."""
        actions: list[GateAction] = []
        while True:
            before = len(actions)
            for edge, state in self._inputs.items():
                self._advance(edge, state, actions, has_unread=unread.get(edge, False))
            if self._subsume():
                continue
            fed = {action.edge for action in actions if isinstance(action, FeedBatch)}
            checkpoint = self._due(now, fed.union(edge for edge in unread if unread[edge]))
            if checkpoint is not None:
                self._snapshotted = checkpoint
                self._since = {n: t for n, t in self._since.items() if n > checkpoint}
                actions.append(TakeSnapshot(checkpoint))
            if len(actions) == before:
                return actions

    def _advance(self, edge: str, state: _Input, actions: list[GateAction], *, has_unread: bool) -> None:
        start = state.passed
        has_unread |= any(isinstance(action, FeedBatch) and action.edge == edge for action in actions)
        while state.queue:
            position, record = state.queue[0]
            if isinstance(record, Barrier) and self._is_new(record):
                state.held_by = record.checkpoint
                break
            if edge in self._one_by_one and has_unread and isinstance(record, Batch) and record.files:
                state.held_by = None if self._aligned else self._next_barrier(state)
                break
            state.queue.popleft()
            state.held_by = None
            state.passed = position + 1
            if isinstance(record, Batch) and record.files:
                actions.append(FeedBatch(edge, position, record))
                has_unread = True
            if isinstance(record, EndOfPartition):
                state.ended = True
        if state.passed != start:
            actions.append(InputPassed(edge, state.passed, state.ended))

    def _next_barrier(self, state: _Input) -> int | None:
        """Return the checkpoint of the first new barrier in the queue, or None."""
        barriers = (record for _, record in state.queue if isinstance(record, Barrier) and self._is_new(record))
        return next((barrier.checkpoint for barrier in barriers), None)

    def _is_new(self, barrier: Barrier) -> bool:
        passed = max(self._snapshotted, self._subsumed)
        return barrier.epoch == self._epoch and barrier.checkpoint > passed

    def _subsume(self) -> bool:
        """Skip all barriers below the highest barrier at which an input waits (R10). Return False if there are none."""
        held = [state.held_by for state in self._inputs.values() if state.held_by is not None]
        if not held or min(held) == max(held):
            return False
        self._subsumed = max(held) - 1
        return True

    def _due(self, now: float, unread: Collection[str]) -> int | None:
        held = [state.held_by for state in self._inputs.values() if state.held_by is not None]
        if not held:
            return None
        newest = max(held)
        if not self._aligned:
            return newest
        waiting = [
            edge
            for edge, state in self._inputs.items()
            if (state.held_by is None and not state.ended) or edge in unread
        ]
        since = self._since.setdefault(newest, now)
        timed_out = self._timeout is not None and now - since >= self._timeout
        return newest if timed_out or not waiting else None
