"""The durable part of the simulation: logs, journal and targets, and the rules that must hold for them.

Rows are tuples that grow by the uid of every edge they pass. So a row that reaches a sink on two paths is two rows, and
"each once" is plain set equality.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    CheckpointReleased,
    CheckpointTriggered,
    EpochClaimed,
    Event,
    PlanRecorded,
    Reconfigured,
    RequestAnswered,
    SinkReleased,
    SplitsAssigned,
    StatusChanged,
    SubtaskFinished,
)
from airflow_provider_ckpt.model.channel import channels, pointwise_producers
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.subtasklog.log_state import fold, live
from airflow_provider_ckpt.subtasklog.record_codec import numbered, subtask_entries
from airflow_provider_ckpt.subtasklog.records import (
    Barrier,
    Batch,
    EndOfPartition,
    Record,
)

Row = tuple[str | int, ...]
JOB = "job"


class FencedError(Exception):
    """Error of a driver after another driver has claimed the journal (R3)."""


class BrokenError(AssertionError):
    """Error for a broken invariant."""


@dataclass
class Target:
    """One sink's target: conditional release (R9)."""

    rows: list[Row] = field(default_factory=list)
    handles: set[str] = field(default_factory=set)
    """Names of the released rows."""
    last_released: int = 0


class World:
    def __init__(
        self,
        graph: JobGraph,
        bounded_rows: Mapping[tuple[str, str], int],
        *,
        name: str,
        aligned: bool,
        splits: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """Create the world.

        ``bounded_rows``: (subtask, bounded source uid) -> number of its rows. ``splits``: source -> split -> number of
        its rows. ``name``: of its in-memory storage. ``aligned``: barriers of the inputs are aligned.
        """
        self.graph = graph
        """The graph in the journal."""
        self.bounded_rows = bounded_rows
        self.splits = splits or {}
        self.subtasks = graph.subtasks
        self.aligned = aligned
        self.storage = MemoryStorage(f"simulation/{name}")
        self.rows: dict[str, tuple[Row, ...]] = {}
        """Staged rows by name."""
        self.logs: dict[SubtaskId, list[Record]] = {name: [] for name in self.subtasks}
        """Every record of a log by its number, void ones included, as of the last check."""
        self._readers = {name: subtask_entries(self.storage, self._path(name)) for name in self.subtasks}
        self.journal: list[tuple[int, Event]] = []
        self.targets = {sink: Target() for v in graph.vertices for sink in v.sinks}
        self.final_only: frozenset[str] = frozenset()
        """Sinks that release only at the end of the job. They are checked then."""
        self.held: frozenset[str] = frozenset()
        """Sinks whose gates are closed until the faults stop."""
        self.now = 0.0
        self._checked = 0
        self._log_checked = dict.fromkeys(self.subtasks, 0)
        self._triggered: dict[int, int] = {}
        self._completed: dict[int, CheckpointCompleted] = {}
        self._released = 0
        self._last_epoch = 0
        self._begins_with: dict[int, tuple[SubtaskId, ...]] = {}
        """Epoch -> subtasks at its beginning."""
        self._begun: dict[int, dict[SubtaskId, bool]] = {}
        """Epoch -> subtask that was begun later in it -> whether it has reported that it runs or has ended."""

    def grow(self, graph: JobGraph) -> None:
        """Take over a graph with more subtasks of some vertices."""
        self.graph, self.subtasks = graph, graph.subtasks
        for name in self.subtasks:
            if name not in self.logs:
                self.logs[name], self._log_checked[name] = [], 0
                self._readers[name] = subtask_entries(self.storage, self._path(name))

    def begins(self, epoch: int, subtask: SubtaskId) -> None:
        """Note that a subtask, added to the graph in the epoch, gets the command to begin."""
        if subtask not in self.logs:
            raise BrokenError(f"R21: {subtask} begins, and the graph in the journal has no such subtask")
        self._begun.setdefault(epoch, {})[subtask] = False

    def begun(self, epoch: int) -> Collection[SubtaskId]:
        """Return the subtasks that began in the epoch and were not in its first graph."""
        return self._begun.get(epoch, {}).keys()

    def ran_with(self, subtask: SubtaskId, settings: VertexSettings | None) -> None:
        """Check a published batch of the subtask: it must have used all decided settings, and no others (R21)."""
        decided = [event.settings for _, event in self.journal if isinstance(event, Reconfigured)]
        now = decided[-1].get(subtask.vertex) if decided else None
        if settings != now:
            raise BrokenError(f"R21: {subtask} ran with {settings}, and {now} is decided")

    def has_come(self, epoch: int, subtask: SubtaskId) -> None:
        """Note that the subtask has reported that it runs or has ended."""
        if subtask in (begun := self._begun.get(epoch, {})):
            begun[subtask] = True

    def split_rows(self, uid: str, split: str) -> list[Row]:
        return [(split, uid, number) for number in range(self.splits[uid][split])]

    @staticmethod
    def _path(subtask: SubtaskId) -> str:
        return subtask_log_path(JOB, subtask.vertex, subtask.number)

    def delete(self) -> None:
        self.storage.delete_tree("")

    # -- reading

    def completed(self, checkpoint: int) -> CheckpointCompleted | None:
        for _, event in self.journal:
            if isinstance(event, CheckpointCompleted) and event.checkpoint == checkpoint:
                return event
        return None

    def write(self, subtask: SubtaskId, path: str) -> str:
        """Put the staged rows ``path`` into the subtask's partition. Return the path of the file there."""
        return path

    def read(self, producer: SubtaskId, path: str) -> tuple[Row, ...]:
        """Return the rows of a file in the producer's partition."""
        return self.rows[path]

    def routed(self, edge: JobEdge, producer: SubtaskId, consumer: SubtaskId, row: Row) -> bool:
        """Return whether the row goes to this consumer subtask."""
        width = self.graph.vertex(edge.producer).parallelism
        parallelism = self.graph.vertex(edge.consumer).parallelism
        readers = list(range(parallelism))
        if edge.exchange == "pointwise":
            at = producer.number
            readers = [i for i in readers if at in pointwise_producers(i, width, parallelism)]
        return readers[zlib.crc32(repr(row).encode()) % len(readers)] == consumer.number

    def staged(self, subtask: SubtaskId, sink: str, position: int) -> Iterator[tuple[str, tuple[Row, ...]]]:
        """Yield (name, rows) for the live batches below the position."""
        for number, record in live(enumerate(self.logs[subtask])):
            if isinstance(record, Batch) and number < position and sink in record.handles:
                path = record.handles[sink]["id"]
                yield path, self.rows[path]

    # -- invariants

    def check(self) -> None:
        """Check all new entries in the journal and the logs."""
        for name, log in self.logs.items():
            for number, record in numbered(self._readers[name].tail()):
                assert number == len(log)
                log.append(record)
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

    def _check_entry(self, name: SubtaskId, before: list[Record], entry: Record) -> None:
        state = fold(enumerate(before))
        if state.closed:
            raise BrokenError(f"{name} wrote {entry} after its end of partition")
        if state.end_of_data and isinstance(entry, Batch):
            raise BrokenError(f"{name} published after its end of data")
        for split in entry.splits if isinstance(entry, Batch) else ():
            self._check_split(name, split)
        if isinstance(entry, Barrier):
            triggered = [(e, ev.checkpoint) for e, ev in self.journal if isinstance(ev, CheckpointTriggered)]
            if (entry.epoch, entry.checkpoint) not in [(self._spoken(epoch), number) for epoch, number in triggered]:
                raise BrokenError(f"R10: barrier {entry.checkpoint} in {name} before it was journaled")

    def _spoken(self, epoch: int) -> int:
        """Return the epoch in the barriers of a JobMaster's epoch."""
        return epoch

    def _check_split(self, name: SubtaskId, split: str) -> None:
        """Check that the split was assigned to the subtask before, and is in only one log of the vertex (R14)."""
        vertex = name.vertex
        place = list(self.splits[vertex]).index(split)
        assigned = [ev.splits for _, ev in self.journal if isinstance(ev, SplitsAssigned) and ev.subtask == name]
        if not any(start <= place < end for ranges in assigned for start, end in ranges):
            raise BrokenError(f"R14: {name} published {split!r}, which was not assigned to it")
        logs = [log for subtask, log in self.logs.items() if subtask.vertex == vertex]
        batches = [record for log in logs for _, record in live(enumerate(log)) if isinstance(record, Batch)]
        if [published for batch in batches for published in batch.splits].count(split) > 1:
            raise BrokenError(f"R14: {split!r} of {vertex} was published twice")

    def _check_event(self, epoch: int, event: Event) -> None:
        if isinstance(event, CheckpointTriggered):
            if self._triggered and event.checkpoint <= max(self._triggered):
                raise BrokenError(f"R10: id {event.checkpoint} is not above {max(self._triggered)}")
            self._triggered[event.checkpoint] = epoch
            silent = [name for name, has_come in self._begun.get(epoch, {}).items() if not has_come]
            if silent:
                raise BrokenError(f"R15: {event.checkpoint} was triggered, and {silent} have begun and do not run")
        elif isinstance(event, CheckpointCompleted):
            if event.checkpoint in self._completed or self._triggered.get(event.checkpoint) != epoch:
                raise BrokenError(f"{event.checkpoint} completed twice or by an epoch that did not trigger it")
            self._completed[event.checkpoint] = event
            self._check_cut(epoch, event)
        elif isinstance(event, CheckpointReleased):
            if event.checkpoint <= self._released or event.checkpoint not in self._completed:
                raise BrokenError(f"R9: released {event.checkpoint} after {self._released}")
            self._released = event.checkpoint
            self._check_released(event.checkpoint)
        elif isinstance(event, SinkReleased):
            has_it = event.sink in self.final_only or self.targets[event.sink].last_released >= event.checkpoint
            if event.checkpoint not in self._completed or not has_it:
                raise BrokenError(f"R9: {event.sink} is reported to have released {event.checkpoint}")
        elif isinstance(event, PlanRecorded):
            self._begins_with[epoch] = event.graph.subtasks
            self.grow(event.graph)
        elif isinstance(event, Reconfigured) and event.graph is not None:
            self.grow(event.graph.graph)
        elif isinstance(event, SubtaskFinished):
            self._check_finished(event.subtask)
        elif isinstance(event, StatusChanged):
            if event.status == "STOPPED":
                self._check_stopped(epoch)
            final = event.status in ("FINISHED", "STOPPED", "FAILED")
            if final and max(self._completed, default=0) > self._released:
                self._check_held(event.status, max(self._completed))

    def _check_held(self, status: str, checkpoint: int) -> None:
        """Check that a checkpoint is unreleased at the end of a run only because gates hold it."""
        unreleased = {sink for sink, target in self.targets.items() if target.last_released < checkpoint}
        if status != "STOPPED" or not unreleased or not unreleased <= self.held:
            raise BrokenError(f"R16: {status} with an unreleased checkpoint")

    def _check_stopped(self, epoch: int) -> None:
        """Check that a STOPPED run has completed and released a savepoint of its own, or that gates hold it."""
        events = [event for e, event in self.journal if e == epoch]
        savepoints = {
            event.checkpoint
            for event in events
            if isinstance(event, CheckpointCompleted) and event.kind in ("savepoint", "final")
        }
        released = {event.checkpoint for event in events if isinstance(event, CheckpointReleased)}
        if not savepoints:
            self._check_stopped_at_the_end(epoch)
            return
        if not savepoints & released or max(savepoints) > self._released:
            self._check_held("STOPPED", max(savepoints))

    def _check_stopped_at_the_end(self, epoch: int) -> None:
        """Check a STOPPED run without a savepoint: a completed checkpoint covers the end of all data.

        Gates may hold its release. Data without readers does not count: no checkpoint covers a subtask without a sink
        and a consumer.
        """
        last = [event for _, event in self.journal if isinstance(event, CheckpointCompleted)][-1:]
        gives = [vertex.uid for vertex in self.graph.vertices if vertex.sinks or self.graph.outputs(vertex.uid)]
        if not last or not all(
            snapshot.finished or name.vertex not in gives for name, snapshot in last[0].subtasks.items()
        ):
            raise BrokenError(f"epoch {epoch} STOPPED without a savepoint")
        self._check_held("STOPPED", last[0].checkpoint)

    def check_answers(self, epoch: int, requests: Collection[str]) -> None:
        """Check that every request of a run was answered finally, once.

        A stop is not answered as completed if the run ended otherwise.
        """
        answers: dict[str, list[RequestOutcome]] = {request: [] for request in requests}
        status = ""
        changes = {
            event.request
            for _, event in self.journal
            if isinstance(event, RequestAnswered) and event.kind == "reconfigure"
        }
        for e, event in self.journal:
            if e == epoch and isinstance(event, RequestAnswered):
                answers[event.request].append(event.outcome)
            elif e == epoch and isinstance(event, StatusChanged):
                status = event.status
        for request, outcomes in answers.items():
            last = [outcome for outcome in outcomes if outcome.is_last]
            if len(last) != 1 or outcomes[-1] != last[0]:
                raise BrokenError(f"request {request} of epoch {epoch} was answered {outcomes}")
            if request not in changes and last[0].is_carried_out and status not in ("FINISHED", "STOPPED"):
                raise BrokenError(f"request {request} is completed, but the run ended {status}")

    def _check_cut(self, epoch: int, event: CheckpointCompleted) -> None:
        snapshots = dict(event.subtasks)
        self._check_whole(epoch, event.checkpoint, set(snapshots))
        for consumer, snapshot in snapshots.items():
            self._check_snapshot(event.checkpoint, consumer, snapshot)
            for channel in channels(self.graph, consumer):
                if channel.producer not in snapshots:  # the producer has not begun
                    if snapshot.inputs.get(channel.key, 0):
                        raise BrokenError(
                            f"cut {event.checkpoint}: {consumer} has read {channel.producer}, which is none"
                        )
                    continue
                producer, other = channel.producer, snapshots[channel.producer]
                is_covered = snapshot.inputs.get(channel.key, 0) <= other.position
                if not (is_covered or other.finished_on_restore or snapshot.finished_on_restore):
                    raise BrokenError(f"cut {event.checkpoint}: {consumer} is ahead of {producer}")

    def _check_whole(self, epoch: int, checkpoint: int, subtasks: set[SubtaskId]) -> None:
        if subtasks != {*self._begins_with[epoch], *self._begun.get(epoch, {})}:
            raise BrokenError(f"checkpoint {checkpoint} misses subtasks, or has too many")

    def _check_snapshot(self, checkpoint: int, name: SubtaskId, snapshot: Snapshot) -> None:
        log = self.logs[name]
        if snapshot.finished_on_restore:
            if not any(isinstance(entry, EndOfPartition) for entry in log):
                raise BrokenError(f"{name} is finished in {checkpoint} but not in its log")
        elif snapshot.position:
            barrier = log[snapshot.position]
            if not isinstance(barrier, Barrier) or barrier.checkpoint != checkpoint:
                raise BrokenError(f"checkpoint {checkpoint} names no barrier of its own in {name}")

    def _check_released(self, checkpoint: int) -> None:
        """Check that a target holds the rows before the cut, each once."""
        event = self._completed[checkpoint]
        for vertex in self.graph.vertices:
            for sink in [sink for sink in vertex.sinks if sink not in self.final_only]:
                if self.targets[sink].last_released > checkpoint:
                    continue  # a driver that counted as dead has released further checkpoints
                expected = []
                for name in [subtask for subtask in vertex.subtasks if subtask in event.subtasks]:
                    snapshot = event.subtasks[name]
                    end = len(self.logs[name]) if snapshot.finished_on_restore else snapshot.position
                    expected += [row for _, rows in self.staged(name, sink, end) for row in rows]
                if sorted(map(repr, self.targets[sink].rows)) != sorted(map(repr, expected)):
                    raise BrokenError(f"{sink} does not hold exactly the rows of checkpoint {checkpoint}")

    def _check_finished(self, subtask: SubtaskId) -> None:
        for sink in self.graph.vertex(subtask.vertex).sinks:
            names = {name for name, _ in self.staged(subtask, sink, len(self.logs[subtask]))}
            if not names <= self.targets[sink].handles:
                raise BrokenError(f"{subtask} finished before its final checkpoint was released")

    def check_all_rows(self) -> None:
        """Check that in a FINISHED job every sink holds every row of every source that reaches it, on every path."""
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
        if whole.splits:
            return {row for split in self.splits[vertex] for row in self.split_rows(vertex, split)}
        for index in range(whole.parallelism):
            name = SubtaskId.of(vertex, index)
            last = fold(enumerate(self.logs[name])).last_batch
            for uid in whole.sources:
                count = self.bounded_rows.get((name, uid))
                if count is None:  # the source was drained at its current position
                    count = 0 if last is None else log_offset(last.offsets.get(uid)) + 1
                rows |= {(name, uid, i) for i in range(count)}
        return rows

    def claim(self) -> int:
        epoch = 1 + max((e for e, event in self.journal if isinstance(event, EpochClaimed)), default=0)
        self.journal.append((epoch, EpochClaimed(epoch, f"driver {epoch}", Worker(), self.now)))
        return epoch
