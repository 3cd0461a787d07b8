"""What outlives a driver in the simulation: logs, journal, targets; and the rules that must hold of it.

Rows are tuples that grow by the uid of every edge they pass, so a row that reaches a sink on two paths
is two rows, and "each once" is plain set equality.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.plan import pointwise_producers, producers_of
from airflow_provider_ckpt.job.graph import Edge, ExecutionGraph
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    EpochClaimed,
    Event,
    RequestAnswered,
    StatusChanged,
    SubtaskFinished,
)
from airflow_provider_ckpt.journal.requests import LAST_WORDS
from airflow_provider_ckpt.partitions.codec import snapshot_from_json
from airflow_provider_ckpt.partitions.records import (
    Barrier,
    Batch,
    EndOfData,
    EndOfPartition,
    Open,
    Snapshot,
)

Row = tuple[str | int, ...]


class FencedError(Exception):
    """Somebody else holds the number this writer wanted (R3)."""


class BrokenError(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Rows:
    """A published micro-batch and what it put out."""

    batch: Batch
    rows: tuple[Row, ...]


Entry = Open | Rows | Barrier | EndOfData | EndOfPartition


@dataclass
class Writer:
    """Appends only behind what it has read (R3)."""

    entries: list[Entry]
    read: int

    def append(self, entry: Entry) -> int:
        if self.read != len(self.entries):
            raise FencedError
        self.entries.append(entry)
        self.read += 1
        return self.read - 1


@dataclass
class Target:
    """One sink's target: conditional release (R9)."""

    rows: list[Row] = field(default_factory=list)
    handles: set[tuple[str, int]] = field(default_factory=set)
    last_released: int = 0


def _subtasks(graph: ExecutionGraph) -> list[str]:
    return [f"{v.uid}/{i}" for v in graph.vertices for i in range(v.parallelism)]


class World:
    def __init__(self, graph: ExecutionGraph, bounded_rows: Mapping[tuple[str, str], int]) -> None:
        """``bounded_rows``: (subtask, bounded source uid) -> number of its rows."""
        self.graph = graph
        self.bounded_rows = bounded_rows
        self.subtasks = _subtasks(graph)
        self.logs: dict[str, list[Entry]] = {name: [] for name in self.subtasks}
        self.journal: list[tuple[int, Event]] = []
        self.targets = {sink: Target() for v in graph.vertices for sink in v.sinks}
        self.drained: set[str] = set()
        self.now = 0.0
        self._checked = 0
        self._log_checked = dict.fromkeys(self.subtasks, 0)
        self._triggered: dict[int, int] = {}
        self._completed: dict[int, CheckpointCompleted] = {}
        self._released = 0
        self._last_epoch = 0

    # -- reading

    def completed(self, checkpoint: int) -> CheckpointCompleted | None:
        for _, event in self.journal:
            if isinstance(event, CheckpointCompleted) and event.checkpoint == checkpoint:
                return event
        return None

    def channels(self, subtask: str) -> Iterator[tuple[Edge, str, str]]:
        """(edge, key of the position, producer subtask) of every input."""
        vertex, index = subtask.split("/")
        parallelism = self.graph.vertex(vertex).parallelism
        for edge in self.graph.inputs(vertex):
            width = self.graph.vertex(edge.producer).parallelism
            for producer in producers_of(edge, int(index), width, parallelism):
                key = edge.uid if width == 1 else f"{edge.uid}/{producer}"
                yield edge, key, f"{edge.producer}/{producer}"

    def routed(self, edge: Edge, producer: str, consumer: str, row: Row) -> bool:
        """Whether the row goes to this consumer subtask."""
        width = self.graph.vertex(edge.producer).parallelism
        parallelism = self.graph.vertex(edge.consumer).parallelism
        readers = list(range(parallelism))
        if edge.exchange == "pointwise":
            at = int(producer.split("/")[1])
            readers = [i for i in readers if at in pointwise_producers(i, width, parallelism)]
        return readers[zlib.crc32(repr(row).encode()) % len(readers)] == int(consumer.split("/")[1])

    def staged(self, subtask: str, sink: str, position: int) -> Iterator[tuple[int, tuple[Row, ...]]]:
        for number, entry in enumerate(self.logs[subtask][:position]):
            if isinstance(entry, Rows) and sink in entry.batch.handles:
                yield number, entry.rows

    # -- invariants

    def check(self) -> None:
        """Everything that is new in journal and logs since the last call."""
        for name, log in self.logs.items():
            for number in range(self._log_checked[name], len(log)):
                self._check_entry(name, log[:number], log[number])
            self._log_checked[name] = len(log)
        for epoch, event in self.journal[self._checked :]:
            if epoch < self._last_epoch:
                raise BrokenError(f"R3: epoch {epoch} wrote {event} after epoch {self._last_epoch}")
            self._last_epoch = epoch
            self._check_event(epoch, event)
        self._checked = len(self.journal)
        for sink, target in self.targets.items():
            if target.last_released and target.last_released not in self._completed:
                raise BrokenError(f"{sink} released {target.last_released}, which is not completed")

    def _check_entry(self, name: str, before: list[Entry], entry: Entry) -> None:
        ended = any(isinstance(e, EndOfData) for e in before)
        if any(isinstance(e, EndOfPartition) for e in before):
            raise BrokenError(f"{name} wrote {entry} after its end of partition")
        if ended and isinstance(entry, Rows):
            raise BrokenError(f"{name} published after its end of data")
        if isinstance(entry, Barrier):
            triggered = [(e, ev.checkpoint) for e, ev in self.journal if isinstance(ev, CheckpointTriggered)]
            if (entry.epoch, entry.checkpoint) not in triggered:
                raise BrokenError(f"R10: barrier {entry.checkpoint} in {name} before it was journaled")

    def _check_event(self, epoch: int, event: Event) -> None:
        if isinstance(event, CheckpointTriggered):
            if self._triggered and event.checkpoint <= max(self._triggered):
                raise BrokenError(f"R10: id {event.checkpoint} is not above {max(self._triggered)}")
            self._triggered[event.checkpoint] = epoch
        elif isinstance(event, CheckpointCompleted):
            if event.checkpoint in self._completed or self._triggered.get(event.checkpoint) != epoch:
                raise BrokenError(f"{event.checkpoint} completed twice or by an epoch that did not trigger it")
            self._completed[event.checkpoint] = event
            self._check_cut(event)
        elif isinstance(event, CheckpointReleased):
            if event.checkpoint <= self._released or event.checkpoint not in self._completed:
                raise BrokenError(f"R9: released {event.checkpoint} after {self._released}")
            self._released = event.checkpoint
            self._check_released(event.checkpoint)
        elif isinstance(event, SubtaskFinished):
            self._check_finished(event.subtask)
        elif isinstance(event, StatusChanged):
            if event.status == "STOPPED":
                self._check_stopped(epoch)
            final = event.status in ("FINISHED", "STOPPED", "FAILED")
            if final and max(self._completed, default=0) > self._released:
                raise BrokenError(f"R16: {event.status} with an unreleased checkpoint")

    def _check_stopped(self, epoch: int) -> None:
        """STOPPED: a savepoint of this run is completed and released, and somebody asked for it here."""
        events = [event for e, event in self.journal if e == epoch]
        savepoints = {
            event.checkpoint
            for event in events
            if isinstance(event, CheckpointCompleted) and event.kind in ("savepoint", "final")
        }
        released = {event.checkpoint for event in events if isinstance(event, CheckpointReleased)}
        if not savepoints & released or max(savepoints) > self._released:
            raise BrokenError(f"epoch {epoch} STOPPED without a released savepoint")

    def check_answers(self, epoch: int, asked: Collection[str]) -> None:
        """At the end of a run everybody who asked was told how it went, once; a stop is not called completed
        that ended otherwise."""
        answers: dict[str, list[str]] = {request: [] for request in asked}
        status = ""
        for e, event in self.journal:
            if e == epoch and isinstance(event, RequestAnswered):
                answers[event.request].append(event.outcome)
            elif e == epoch and isinstance(event, StatusChanged):
                status = event.status
        for request, outcomes in answers.items():
            last = [outcome for outcome in outcomes if outcome.startswith(LAST_WORDS)]
            if len(last) != 1 or outcomes[-1] != last[0]:
                raise BrokenError(f"request {request} of epoch {epoch} was answered {outcomes}")
            if last[0].startswith("completed") and status not in ("FINISHED", "STOPPED"):
                raise BrokenError(f"request {request} is completed, but the run ended {status}")

    def _check_cut(self, event: CheckpointCompleted) -> None:
        snapshots = {name: snapshot_from_json(s) for name, s in event.subtasks.items()}
        if set(snapshots) != set(self.subtasks):
            raise BrokenError(f"checkpoint {event.checkpoint} misses subtasks")
        for consumer, snapshot in snapshots.items():
            self._check_snapshot(event.checkpoint, consumer, snapshot)
            for _, key, producer in self.channels(consumer):
                other = snapshots[producer]
                behind = snapshot.inputs.get(key, 0) <= other.position
                if not (behind or other.finished_on_restore or snapshot.finished_on_restore):
                    raise BrokenError(f"cut {event.checkpoint}: {consumer} is ahead of {producer}")

    def _check_snapshot(self, checkpoint: int, name: str, snapshot: Snapshot) -> None:
        log = self.logs[name]
        if snapshot.finished_on_restore:
            if not any(isinstance(entry, EndOfPartition) for entry in log):
                raise BrokenError(f"{name} is finished in {checkpoint} but not in its log")
        elif snapshot.position:
            barrier = log[snapshot.position]
            if not isinstance(barrier, Barrier) or barrier.checkpoint != checkpoint:
                raise BrokenError(f"checkpoint {checkpoint} names no barrier of its own in {name}")

    def _check_released(self, checkpoint: int) -> None:
        """Exactly once: a target holds what lies before the cut, each row once."""
        event = self._completed[checkpoint]
        for vertex in self.graph.vertices:
            for sink in vertex.sinks:
                if self.targets[sink].last_released > checkpoint:
                    continue  # a driver that was declared dead released on
                expected = []
                for index in range(vertex.parallelism):
                    name = f"{vertex.uid}/{index}"
                    snapshot = snapshot_from_json(event.subtasks[name])
                    end = len(self.logs[name]) if snapshot.finished_on_restore else snapshot.position
                    expected += [row for _, rows in self.staged(name, sink, end) for row in rows]
                if sorted(map(repr, self.targets[sink].rows)) != sorted(map(repr, expected)):
                    raise BrokenError(f"{sink} does not hold exactly the rows of checkpoint {checkpoint}")

    def _check_finished(self, subtask: str) -> None:
        for sink in self.graph.vertex(subtask.split("/")[0]).sinks:
            numbers = {(subtask, n) for n, _ in self.staged(subtask, sink, len(self.logs[subtask]))}
            if not numbers <= self.targets[sink].handles:
                raise BrokenError(f"{subtask} finished before its final checkpoint was released")

    def check_all_rows(self) -> None:
        """At FINISHED every sink holds every row of every source that reaches it, on every path."""
        expected: dict[str, set[Row]] = {}
        for vertex in self.graph.vertices:
            rows = self._own_rows(vertex.uid)
            for edge in self.graph.inputs(vertex.uid):
                rows |= {(*row, edge.uid) for row in expected[edge.producer]}
            expected[vertex.uid] = rows
            for sink in vertex.sinks:
                got = self.targets[sink].rows
                if len(got) != len(set(got)) or set(got) != rows:
                    raise BrokenError(f"{sink} holds {len(got)} rows ({len(set(got))} different), not {len(rows)}")

    def _own_rows(self, vertex: str) -> set[Row]:
        whole = self.graph.vertex(vertex)
        rows: set[Row] = set()
        for index in range(whole.parallelism):
            name = f"{vertex}/{index}"
            offsets = last_batch(self.logs[name]).offsets
            for uid in whole.sources:
                count = self.bounded_rows.get((name, uid))
                if count is None or name in self.drained:
                    count = int(offsets.get(uid, "0"))
                rows |= {(name, uid, i) for i in range(count)}
        return rows

    def claim(self) -> int:
        epoch = 1 + max((e for e, event in self.journal if isinstance(event, EpochClaimed)), default=0)
        self.journal.append((epoch, EpochClaimed(epoch, f"driver {epoch}", {}, self.now)))
        return epoch


def last_batch(log: list[Entry]) -> Batch:
    for entry in reversed(log):
        if isinstance(entry, Rows):
            return entry.batch
    return Batch(-1, {})
