"""Simulated subtasks: the real machine, gate, inputs, publication and log, over a simulated query.

The work of the real task's thread is done here in later steps.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from airflow_provider_ckpt.coordinator.protocol.reports import (
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    Report,
    SourceAtEnd,
)
from airflow_provider_ckpt.model.channel import Channel, channels
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId, TaskId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.subtasklog.input_gate import InputGate
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import Batch, EndMode, PartitionFile
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.actions import (
    Action,
    AnnounceEnd,
    BuildQuery,
    EndData,
    EndPartition,
    PauseQuery,
    PostReport,
    ReadAvailable,
    RunQuery,
)
from airflow_provider_ckpt.task.bounded_reading import BoundedReading
from airflow_provider_ckpt.task.machine import ReadProgress, TaskMachine
from airflow_provider_ckpt.task.publication import Publication
from airflow_provider_ckpt.task.vertex_inputs import BoundedInput, EdgeInput, Inputs
from tests.simulation import query as q
from tests.simulation.world import BrokenError, Row, World

_NAMES = itertools.count()
ALIGNED_TIMEOUT = 10.0


class Runner:
    """A simulated subtask. ``outbox``: reports to the coordinator, in order. ``graph``: as the epoch began.

    ``log``: its own log, opened. ``inputs``: returns the log of a subtask that this one reads.
    """

    publication: Publication
    machine: TaskMachine

    def __init__(
        self,
        world: World,
        graph: JobGraph,
        subtask: SubtaskId,
        epoch: int,
        attempt: AttemptId,
        log: SubtaskLog,
        inputs: Callable[[SubtaskId], LogReader],
        plan: VertexPlan,
    ) -> None:
        self.world, self.graph = world, graph
        self.subtask, self.epoch, self.attempt = subtask, epoch, attempt
        self.log, self.log_of = log, inputs
        self.made_for = plan
        self.told: VertexPlan | None = None
        """The plan of its last deployment or resume."""
        self.vertex = world.graph.vertex(subtask.vertex)
        self.outbox: list[Report] = []
        self.work: deque[Callable[[], None]] = deque()
        self.channels = self._channels(plan)
        self._prepare(plan)

    def _prepare(self, plan: VertexPlan) -> None:
        raise NotImplementedError

    def _channels(self, plan: VertexPlan) -> dict[str, Channel]:
        """Return key -> channel for all channels that it reads under the plan."""
        return {channel.key: channel for channel in channels(self.graph.rescaled(plan.parallelism), self.subtask)}

    @property
    def task_id(self) -> TaskId:
        return TaskId(self.epoch, self.subtask, self.attempt)

    # -- commands of the driver

    def deploy(self, plan: VertexPlan) -> None:
        self.told = plan

    def put_barrier(self, checkpoint: int) -> None:
        if not self.log.state.closed:
            self.publication.trigger(checkpoint)

    def finish(self) -> None:
        raise NotImplementedError

    def pause(self, reason: PauseReason) -> None:
        raise NotImplementedError

    def resume(self, plan: VertexPlan) -> None:
        self.told = plan

    def prepare(self, trial: str, plan: VertexPlan, *, fits: bool) -> None:
        """Report that the change does not fit, because this query reads all its input at once.

        In other runners ``fits`` is the result of the trial, reported in a later step.
        """
        self.outbox.append(ReconfigurationUnfit(*self.task_id, trial, "it ends by itself"))

    def drain(self, *, at_once: bool = False) -> None:
        raise NotImplementedError

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        raise NotImplementedError

    def poll_barriers(self) -> None:
        """Watch the tails of the inputs while a batch runs (R19)."""

    def run(self, random: Random) -> None:
        """Take one step of its thread or of its query."""
        if self.work and random.random() < 0.7:
            self.work.popleft()()
        else:
            self._run_batch(random)

    def _run_batch(self, random: Random) -> None:
        """Run one micro-batch, if the query runs and there is input."""

    # -- rows

    def _routed(self, by: Channel, path: str) -> list[Row]:
        rows = self.world.read(by.producer, path)
        return [(*row, by.edge.uid) for row in rows if self.world.routed(by.edge, by.producer, self.subtask, row)]

    def _own(self, path: str) -> Row:
        uid, _, number = path.partition("/")
        return (self.subtask, uid, int(number))

    def _staged(self, batch_id: int, rows: list[Row]) -> dict[str, Any]:
        """Return the files and handles of a batch, under a unique name (R5)."""
        path = f"{self.subtask}-{self.attempt}-{batch_id}-{next(_NAMES)}"
        self.world.rows[path] = tuple(rows)
        read = rows and self.world.graph.outputs(self.vertex.uid)
        files = (PartitionFile(self.world.write(self.subtask, path), len(rows)),) if read else ()
        return {"files": files, "handles": {sink: {"id": path, "rows": len(rows)} for sink in self.vertex.sinks}}


class StreamingRunner(Runner):
    publication_type = Publication
    """Replaced by tests with a defect that the simulation must notice."""
    machine_type = TaskMachine

    def _prepare(self, plan: VertexPlan) -> None:
        last = self.log.state.last_batch
        edges = {channel.edge.uid for channel in self.channels.values()}
        self.feeds = {uid: q.Feed(self._read_of(last, uid)) for uid in sorted(edges)}
        self.sources = {uid: q.Source(uid, self.world.bounded_rows.get((self.subtask, uid))) for uid in self._uids()}
        self.query = q.Query({**self.feeds, **self.sources}, last)
        self.inputs = self._inputs(last, plan)
        self.publication = self.publication_type(
            self.log,
            self.task_id,
            self.inputs,
            plan=plan,
            post=self.outbox.append,
            notify=lambda: None,
            clock=lambda: self.world.now,
        )
        self.machine = self.machine_type(self.task_id, {*self.feeds, *self.inputs.bounded})
        self.publication.restore()

    def _uids(self) -> tuple[str, ...]:
        return self.vertex.sources

    @staticmethod
    def _read_of(last: Batch | None, key: str) -> int:
        return 0 if last is None else log_offset(last.offsets.get(key)) + 1

    @staticmethod
    def _position(last: Batch | None, key: str) -> int:
        return 0 if last is None else last.inputs.get(key, 0)

    def _inputs(self, last: Batch | None, plan: VertexPlan) -> Inputs:
        edges: dict[str, Any] = {}
        for channel in self.channels.values():
            edges[channel.key] = self._input(channel, self._position(last, channel.key))
        bounded = {
            uid: BoundedInput(uid, set(source.between(0, source.count)), frozenset(source.between(0, source.count)))
            for uid, source in self.sources.items()
            if source.count is not None and uid not in plan.without
        }
        gate = InputGate(self.channels, epoch=self.epoch, aligned=self.world.aligned, aligned_timeout=ALIGNED_TIMEOUT)
        of: dict[str, Any] = {**self.feeds, **self.sources}
        seen: Callable[[str], Any] = lambda uid: q.Seen(of[uid])  # noqa: E731
        return Inputs(edges, bounded, gate, seen)

    def _input(self, channel: Channel, read: int) -> EdgeInput:
        start = max(0, read - 1)  # as in the real input: the last entry that was read may be the end
        edge, log = channel.edge, self.log_of(channel.producer)
        feed: Any = q.ChannelFeed(self.feeds[edge.uid], channel.key, fed=read - 1)
        return EdgeInput(edge, log, feed, offered=start, read=read, passed=start, source=edge.uid)

    # -- commands of the driver

    def deploy(self, plan: VertexPlan) -> None:
        super().deploy(plan)
        self.work.append(lambda: self._carry_out(self.machine.deploy(plan, self.log.state.end_of_data)))

    def finish(self) -> None:
        self._carry_out(self.machine.finish())

    def pause(self, reason: PauseReason) -> None:
        self._carry_out(self.machine.pause(reason))

    def resume(self, plan: VertexPlan) -> None:
        super().resume(plan)
        self._carry_out(self.machine.resume(plan))

    def prepare(self, trial: str, plan: VertexPlan, *, fits: bool) -> None:
        world = (*self.task_id, trial)
        answer: Report = ReconfigurationPrepared(*world) if fits else ReconfigurationUnfit(*world, "other columns")
        self.work.append(lambda: self.outbox.append(answer))

    def drain(self, *, at_once: bool = False) -> None:
        self._carry_out(self.machine.drain(self._seen(), at_once=at_once))

    def poll_barriers(self) -> None:
        if self.channels and not self.log.state.closed:
            self.publication.act_on_inputs()
            self._carry_out(self.machine.advance(self._seen()))

    # -- the query

    def _seen(self) -> ReadProgress:
        edges_ended = all(edge.ended for edge in self.inputs.edges.values())
        return ReadProgress(self.inputs.ended(), edges_ended, self.publication.last_batch())

    def _run_batch(self, random: Random) -> None:
        if not self.query.is_running:
            return
        without = self.publication.plan.without
        ends = self.query.plan(random, without)
        rows = [
            row
            for uid, feed in self.feeds.items()
            for path in self.query.read(uid, ends)
            for row in self._routed(self.channels[feed.keys[path]], path)
        ]
        rows += [self._own(path) for uid in self.sources for path in self.query.read(uid, ends)]
        if ends == self.query.offsets:
            return
        batch_id = self.publication.last_batch() + 1
        offsets = {uid: q.offset_json(end - 1) for uid, end in ends.items()}
        self.query.offsets = ends
        self.publication.publish(Batch(batch_id, offsets, **self._staged(batch_id, rows)))
        self.world.ran_with(self.subtask, self.publication.plan.settings)
        self._carry_out(self.machine.advance(self._seen()))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case BuildQuery(plan):
                    self.work.append(functools.partial(self._build, plan))
                case RunQuery():
                    self.work.append(self._start)
                case PauseQuery():
                    self.work.append(self._pause_query)
                case ReadAvailable():
                    self.work.append(self._report_end_of_input)
                case EndData(mode):
                    self.work.append(functools.partial(self._end, mode))
                case EndPartition():
                    self.publication.end_of_partition()
                    self._carry_out(self.machine.partition_ended())
                case AnnounceEnd(uid, batch_id):
                    self._report_source_end(uid, batch_id)
                case PostReport(report):
                    self.publication.post(report)

    def _report_source_end(self, uid: str, batch_id: int) -> None:
        droppable = len({*self.feeds, *self.sources} - self.publication.plan.without) > 1
        self.publication.post(SourceAtEnd(*self.task_id, uid, batch_id, droppable))

    def _build(self, plan: VertexPlan) -> None:
        self.publication.plan = plan
        self._widen(plan)
        reads = {*self.feeds, *self.sources}
        self._carry_out(self.machine.planned(reads, ends_by_itself=False, progress=self._seen()))

    def _widen(self, plan: VertexPlan) -> None:
        """Read the plan's new channels. They are read from the start, because nothing of them was read before."""
        new = {key: channel for key, channel in self._channels(plan).items() if key not in self.channels}
        self.channels |= new
        inputs = {key: self._input(channel, 0) for key, channel in new.items() if channel.edge.uid not in plan.without}
        self.inputs.add_edges(inputs)

    def _start(self) -> None:
        self.query.is_running = True
        if self.machine.reads_available:
            self.work.append(self._report_end_of_input)
        self._carry_out(self.machine.started(self._seen()))

    def _report_end_of_input(self) -> None:
        if self.query.is_running and self.machine.reads_available:
            self._carry_out(self.machine.query_ended())

    def _pause_query(self) -> None:
        self.query.is_running = False
        self._carry_out(self.machine.paused_at(self.publication.last_batch()))

    def _end(self, mode: EndMode) -> None:
        self.query.is_running = False
        self.publication.end_of_data(mode)
        self._carry_out(self.machine.data_ended())


class BoundedRunner(Runner):
    """A subtask with the real :class:`BoundedReading`. Reading between two of its calls takes one or several steps."""

    reading: BoundedReading

    def _publication(self) -> Publication:
        return Publication(self.log, self.task_id, post=self.outbox.append, notify=lambda: None)

    def _take(self, reading: BoundedReading) -> None:
        self.reading, self.publication, self.machine = reading, reading.publication, reading.machine

    def deploy(self, plan: VertexPlan) -> None:
        super().deploy(plan)
        self.work.append(lambda: self._deploy(plan))

    def _deploy(self, plan: VertexPlan) -> None:
        if self.reading.deploy(plan):
            self.reading.begin()
            self._begun()

    def _begun(self) -> None:
        """Called when the subtask runs."""

    def finish(self) -> None:
        self.reading.finish()

    def drain(self, *, at_once: bool = False) -> None:
        """Do nothing, because all its input ends by itself."""


class BatchRunner(BoundedRunner):
    """A batch subtask: it starts on complete inputs, reads all of them in one step, and polls no barriers."""

    def _prepare(self, plan: VertexPlan) -> None:
        edges = {channel.edge.uid for channel in self.channels.values()}
        self._take(BoundedReading([*edges, *self.vertex.sources], self._publication()))

    def deploy(self, plan: VertexPlan) -> None:
        self.channels = self._channels(plan)
        self.logs = {channel.producer: self.log_of(channel.producer) for channel in self.channels.values()}
        incomplete = [producer for producer, log in self.logs.items() if not log.has_ended]
        if incomplete:
            raise BrokenError(f"R23: {self.subtask} is deployed over incomplete inputs {incomplete}")
        super().deploy(plan)

    def _begun(self) -> None:
        self.work.append(self._publish)

    def _publish(self) -> None:
        rows: list[Row] = []
        for by in self.channels.values():
            batches = [record for _, record in self.logs[by.producer].records() if isinstance(record, Batch)]
            rows += [row for batch in batches for file in batch.files for row in self._routed(by, file.path)]
        for uid in self.vertex.sources:
            source = q.Source(uid, self.world.bounded_rows[self.subtask, uid])
            rows += [self._own(path) for path in source.between(0, source.count or 0)]
        inputs = {key: self.logs[by.producer].position for key, by in self.channels.items()}
        self.publication.publish(Batch(0, {}, inputs, ended=self.vertex.sources, **self._staged(0, rows)))
        self.work.append(self.reading.end)
