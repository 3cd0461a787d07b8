"""A subtask's process in the simulation. It does what the real runner does: batches, barriers, ends."""

from __future__ import annotations

from random import Random

from airflow_provider_ckpt.coordinator import messages as m
from airflow_provider_ckpt.partitions.records import Barrier, Batch, EndOfData, EndOfPartition, Open, Snapshot
from tests.simulation.world import Row, Rows, World, Writer, last_batch


class Runner:
    """``outbox`` is what it tells the coordinator, in order."""

    publish_before_barrier = False
    """Set by a test to show that the simulation notices."""

    def __init__(self, world: World, subtask: str, epoch: int, dropped: set[str], *, batch: bool = False) -> None:
        """``batch``: as the real BatchRunner, it starts over complete inputs, reads all of them and all of its
        sources at once, and looks at no barrier: it has no gate."""
        self.world, self.subtask, self.epoch, self.batch = world, subtask, epoch, batch
        self.attempt = f"{subtask}@{epoch}"
        self.vertex = world.graph.vertex(subtask.split("/")[0])
        self.log = world.logs[subtask]
        self.writer = Writer(self.log, len(self.log))
        self.closed = any(isinstance(entry, EndOfPartition) for entry in self.log)
        if not self.closed:
            self.writer.append(Open(self.attempt, epoch, "spark"))
        self.last = last_batch(self.log)
        self.dropped = dropped
        self.announced: set[str] = set()
        self.barrier = 0
        self.paused = False
        self.ended = any(isinstance(entry, EndOfData) for entry in self.log)
        self.outbox: list[m.Message] = []
        if self.closed:
            self.outbox.append(m.SubtaskDone(epoch, subtask, self.attempt))
        elif self.ended:
            self.outbox.append(m.SubtaskAtEndOfData(epoch, subtask, self.attempt))
        else:
            self.outbox.append(m.SubtaskRunning(epoch, subtask, self.attempt))

    # -- barriers

    def put_barrier(self, checkpoint: int) -> None:
        """Snapshot at the last published entry; a known or older one is passed (R10)."""
        if checkpoint <= self.barrier or self.closed:
            return
        snapshot = Snapshot(
            position=len(self.log),
            batch_id=self.last.batch_id,
            offsets=self.last.offsets,
            inputs=self.last.inputs,
            ended=self.last.ended,
            finished=self.ended,
        )
        self.writer.append(Barrier(self.epoch, checkpoint, snapshot))
        self.barrier = checkpoint
        answer = m.BarrierAcknowledged(self.epoch, self.subtask, self.attempt, checkpoint, snapshot)
        self.outbox.append(answer)

    def poll_barriers(self) -> None:
        """R19: the tails of the inputs are watched while a batch runs."""
        if self.batch:
            return
        seen = [
            entry.checkpoint
            for _, _, producer in self.world.channels(self.subtask)
            for entry in self.world.logs[producer]
            if isinstance(entry, Barrier) and entry.epoch == self.epoch
        ]
        if seen:
            self.put_barrier(max(seen))

    # -- batches

    def run_batch(self, random: Random) -> None:
        """One micro-batch, or the end of data if there is nothing left to come."""
        if self.ended or self.paused or self.closed or (self.batch and not self._inputs_are_complete()):
            return
        inputs, rows, barriers = self._read(random)
        offsets = self._pull(random, rows)
        if not rows and inputs == dict(self.last.inputs) and self._is_exhausted():
            self.writer.append(EndOfData())
            self.ended = True
            self.outbox.append(m.SubtaskAtEndOfData(self.epoch, self.subtask, self.attempt))
            return
        if not rows and inputs == dict(self.last.inputs):
            return
        if barriers and not self.publish_before_barrier:
            self.put_barrier(max(barriers))
        sources = self.vertex.bounded_sources
        ended = tuple(uid for uid in sources if int(offsets[uid]) == self._count(uid))
        handles = {sink: {"rows": len(rows)} for sink in self.vertex.sinks}
        batch = Batch(self.last.batch_id + 1, offsets, inputs, handles=handles, ended=ended)
        self.writer.append(Rows(batch, tuple(rows)))
        self.last = batch
        if barriers:
            self.put_barrier(max(barriers))
        self._announce(ended)

    def _read(self, random: Random) -> tuple[dict[str, int], list[Row], list[int]]:
        inputs: dict[str, int] = {}
        rows: list[Row] = []
        barriers: list[int] = []
        for edge, key, producer in self.world.channels(self.subtask):
            log = self.world.logs[producer]
            start = self.last.inputs.get(key, 0)
            inputs[key] = len(log) if self.batch else min(len(log), start + random.randint(0, 4))
            for entry in log[start : inputs[key]]:
                if isinstance(entry, Barrier) and entry.epoch == self.epoch and not self.batch:
                    barriers.append(entry.checkpoint)
                elif isinstance(entry, Rows):
                    routed = (r for r in entry.rows if self.world.routed(edge, producer, self.subtask, r))
                    rows += [(*row, edge.uid) for row in routed]
        return inputs, rows, barriers

    def _pull(self, random: Random, rows: list[Row]) -> dict[str, str]:
        offsets: dict[str, str] = {}
        for uid in self.vertex.sources:
            start = int(self.last.offsets.get(uid, "0"))
            limit = self._count(uid)
            end = start + (1000 if self.batch else random.randint(0, 2))
            if limit is not None:
                end = min(end, limit)
            if self.subtask in self.world.drained:
                end = start
            rows += [(self.subtask, uid, i) for i in range(start, end)]
            offsets[uid] = str(end)
        return offsets

    def _inputs_are_complete(self) -> bool:
        """R23, as far as it is simulated: consumers start over producers that are at their end of data."""
        logs = [self.world.logs[producer] for _, _, producer in self.world.channels(self.subtask)]
        return all(any(isinstance(entry, EndOfData) for entry in log) for log in logs)

    def _count(self, uid: str) -> int | None:
        return self.world.bounded_rows.get((self.subtask, uid))

    def _is_exhausted(self) -> bool:
        drained = self.subtask in self.world.drained
        for uid in self.vertex.sources:
            limit = self._count(uid)
            if not drained and (limit is None or int(self.last.offsets.get(uid, "0")) < limit):
                return False
        for _, key, producer in self.world.channels(self.subtask):
            log = self.world.logs[producer]
            rest = log[self.last.inputs.get(key, 0) :]
            unread = any(isinstance(entry, Rows) for entry in rest)
            if unread or not any(isinstance(entry, EndOfData) for entry in log):
                return False
        return True

    def _announce(self, ended: tuple[str, ...]) -> None:
        more = len(self.vertex.sources) > len(ended) or bool(self.world.graph.inputs(self.vertex.uid))
        for uid in ended:
            if uid not in self.announced and uid not in self.dropped:
                self.announced.add(uid)
                self.outbox.append(m.SourceAtEnd(self.epoch, self.subtask, self.attempt, uid, self._batch_id, more))

    @property
    def _batch_id(self) -> int:
        return self.last.batch_id

    # -- commands

    def stop_at_boundary(self, uid: str) -> None:
        if not self.ended:
            self.paused = True
            self.outbox.append(m.StoppedAtBoundary(self.epoch, self.subtask, self.attempt, uid, self._batch_id))

    def resume_without(self, uid: str) -> None:
        self.dropped.add(uid)
        self.paused = False
        self.outbox.append(m.SubtaskRunning(self.epoch, self.subtask, self.attempt))

    def drain(self) -> None:
        self.world.drained.add(self.subtask)

    def finish(self) -> None:
        if not self.closed:
            self.writer.append(EndOfPartition())
            self.closed = True
            self.outbox.append(m.SubtaskDone(self.epoch, self.subtask, self.attempt))
