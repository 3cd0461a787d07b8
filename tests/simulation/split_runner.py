"""A subtask of a source with splits in the simulation: the real machine, log and queue; a split is some rows."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from airflow_provider_ckpt.coordinator.reports import BarrierAcknowledged, SplitCompleted
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.task.actions import Action, BuildQuery, EndData, RunQuery
from airflow_provider_ckpt.task.assigned_splits import AssignedSplits, published_in
from airflow_provider_ckpt.task.machine import Seen
from airflow_provider_ckpt.task.phase import TaskPhase
from tests.simulation.runner import Runner

_NOTHING = Seen(frozenset(), inputs_ended=True, batch_id=-1)


class SplitRunner(Runner):
    def _prepare(self, dropped: frozenset[str]) -> None:
        self.machine = self.machine_type([self.vertex.uid])
        self.assigned = AssignedSplits()

    def deploy(self, plan: VertexPlan) -> None:
        self.work.append(lambda: self._deploy(plan))

    def _deploy(self, plan: VertexPlan) -> None:
        for split, position in published_in(self.log, self.epoch):
            self._tell(SplitCompleted, split=split, position=position)
        self._carry_out(self.machine.deploy(plan, self.log.state.end_of_data))

    def assign(self, splits: Iterable[str], *, is_last: bool) -> None:
        self.assigned.assign(splits, is_last=is_last)

    def put_barrier(self, checkpoint: int) -> None:
        if not self.log.state.closed:
            self._tell(BarrierAcknowledged, checkpoint=checkpoint, snapshot=self.log.barrier(self.epoch, checkpoint))

    def drain(self) -> None:
        """It ends with its last split."""

    def _run_batch(self, random: Random) -> None:
        if self.machine.phase is not TaskPhase.RUNNING:
            return
        split = self.assigned.next()
        if split is not None:
            self._publish(split)
        elif self.assigned.is_exhausted:
            self._carry_out(self.machine.advance(Seen(frozenset([self.vertex.uid]), True, -1)))

    def _publish(self, split: str) -> None:
        last = self.log.state.last_batch
        batch_id = 0 if last is None else last.batch_id + 1
        staged = self._staged(batch_id, self.world.split_rows(self.vertex.uid, split))
        position = self.log.publish(Batch(batch_id, {}, split=split, **staged))
        self.assigned.done(split)
        self._tell(SplitCompleted, split=split, position=position)

    def _do(self, action: Action) -> None:
        match action:
            case BuildQuery():
                self._carry_out(self.machine.planned([self.vertex.uid], runs_out=False, seen=_NOTHING))
            case RunQuery():
                self._carry_out(self.machine.started(_NOTHING))
            case EndData(mode):
                self.work.append(lambda: self._end(mode))
            case _:
                raise AssertionError(action)
