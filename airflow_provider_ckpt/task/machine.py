"""What a task does next: it follows from its phase, the tail of its log, its inputs and its commands.

No threads, no clock, no Spark: the streaming task, the batch task and the simulation run this one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.reports import SubtaskAtEndOfData, SubtaskDone, SubtaskPaused, SubtaskRunning
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.task_id import TaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.partitions.records import EndMode
from airflow_provider_ckpt.task.actions import (
    Action,
    AnnounceEnd,
    BuildQuery,
    EndData,
    EndPartition,
    ReadWhatIsThere,
    RunQuery,
    StandStill,
    Tell,
)
from airflow_provider_ckpt.task.phase import TaskPhase


@dataclass(frozen=True)
class Seen:
    """What published batches cover. ``ended``: sources and input edges that were read to their end; ``inputs_ended``:
    every edge has shown its end, whether that is read or not; ``batch_id``: of the last one, -1 if there is none."""

    ended: frozenset[str]
    inputs_ended: bool
    batch_id: int


class TaskMachine:
    """Of one attempt of one subtask. Not thread-safe: whoever runs the task calls it under one lock.

    A method is a command, or a fact; it returns what is to be done for it, in order. One that does not fit the phase
    asks for nothing: a command that comes too late is answered by what the task has said already (R22).
    """

    def __init__(self, task_id: TaskId, ends: Collection[str]) -> None:
        """``task_id``: whose machine it is. ``ends``: the sources and edges whose end shows in what is published; any
        other reads on until it is drained, or until its query ends by itself."""
        self.task_id = task_id
        self.phase = TaskPhase.CREATED
        self.plan = VertexPlan(0, ())
        self._ends = frozenset(ends)
        self._reads: frozenset[str] = frozenset()
        self._announced: set[str] = set()
        self._pause: PauseReason | None = None
        self._draining = self._at_once = self._runs_out = False
        self.reads_what_is_there = False
        """The query reads what is there when it starts, and ends by itself, because the job is drained."""

    # -- commands

    def deploy(
        self, plan: VertexPlan, end_of_data: EndMode | None, *, final_batch_planned: bool = False
    ) -> list[Action]:
        """``end_of_data``: of the log's tail, which decides (R11): nothing is read any more. ``final_batch_planned``:
        the batch at the maximal watermark was planned by an attempt before: only the end is left (R12)."""
        if self.phase is not TaskPhase.CREATED:
            return []
        self.plan = plan
        if end_of_data is not None:
            return self._at_end()
        if final_batch_planned:
            return self._end("drain")
        return self._build()

    def pause(self, reason: PauseReason) -> list[Action]:
        """Stand still for ``reason``. On the way to the end of data it is too late for that: the end is told."""
        if self.phase is TaskPhase.STARTING:
            self._pause = reason
            return []
        if self.phase not in (TaskPhase.WAITING, TaskPhase.RUNNING):
            return []
        return self._stand_still(reason)

    def resume(self, plan: VertexPlan) -> list[Action]:
        """Go on with ``plan``."""
        if self.phase is not TaskPhase.PAUSED:
            return []
        self.plan, self._pause = plan, None
        return self._build()

    def drain(self, seen: Seen, *, at_once: bool = False) -> list[Action]:
        """Once the bounded sources and the edges are read to their end, read what the unbounded ones have by then, and
        end them. A query that runs out does so by itself.

        Args:
            at_once: the unbounded sources end where they stand.
        """
        self._draining, self._at_once = True, self._at_once or at_once
        return self.advance(seen)

    def finish(self) -> list[Action]:
        """The coordinator needs nothing more of it."""
        return [EndPartition()] if self.phase is TaskPhase.AT_END_OF_DATA else []

    # -- facts

    def planned(self, reads: Collection[str], *, runs_out: bool, seen: Seen) -> list[Action]:
        """The query is built. ``reads``: its sources and edges; ``runs_out``: it takes what is there when it starts,
        and ends by itself, so that every edge has to have shown its end before."""
        if self.phase is not TaskPhase.STARTING:
            return []
        self._reads = frozenset(reads) - frozenset(self.plan.dropped)
        self._announced &= set(self.plan.dropped)
        self._runs_out = runs_out
        ending = self._look_for_end(seen)
        if self._has_to_end:
            return ending
        if self._pause is not None:
            return [*ending, *self._stand_still(self._pause)]
        if runs_out and not seen.inputs_ended:
            self.phase = TaskPhase.WAITING
            return [*ending, self._running()]
        return [*ending, RunQuery()]

    def started(self, seen: Seen) -> list[Action]:
        """The query runs."""
        if self.phase is not TaskPhase.STARTING:
            return []
        if self._pause is not None:
            return self._stand_still(self._pause)
        self.phase = TaskPhase.RUNNING
        return [self._running(), *self._look_for_end(seen)]

    def advance(self, seen: Seen) -> list[Action]:
        """A batch was published, or more of the inputs was looked at."""
        if self.phase not in (TaskPhase.WAITING, TaskPhase.RUNNING):
            return []
        if self.phase is TaskPhase.WAITING and seen.inputs_ended:
            self.phase = TaskPhase.RUNNING
            return [RunQuery(), *self._look_for_end(seen)]
        return self._look_for_end(seen)

    def ran_out(self) -> list[Action]:
        """The query had read all there was, and ended."""
        early = TaskPhase.STARTING  # it may have run out before it was said that it runs
        mode: EndMode = "drain" if self.reads_what_is_there else "finish"
        return self._end(mode) if self.phase in (early, TaskPhase.RUNNING) else []

    def stood_still(self, batch_id: int) -> list[Action]:
        if self.phase is not TaskPhase.PAUSING or self._pause is None:
            return []
        self.phase = TaskPhase.PAUSED
        return [Tell(SubtaskPaused(*self.task_id, self._pause, batch_id))]

    def data_ended(self) -> list[Action]:
        return self._at_end() if self.phase is TaskPhase.ENDING else []

    def partition_ended(self) -> list[Action]:
        self.phase = TaskPhase.FINISHED
        return [Tell(SubtaskDone(*self.task_id))]

    # -- what follows

    @property
    def _has_to_end(self) -> bool:
        return self.phase is TaskPhase.ENDING

    def _build(self) -> list[Action]:
        self.phase, self.reads_what_is_there = TaskPhase.STARTING, False
        return [BuildQuery(self.plan)]

    def _running(self) -> Action:
        return Tell(SubtaskRunning(*self.task_id, plan=self.plan.number))

    def _stand_still(self, reason: PauseReason) -> list[Action]:
        self.phase, self._pause = TaskPhase.PAUSING, reason
        return [StandStill()]

    def _look_for_end(self, seen: Seen) -> list[Action]:
        """The end after the last source; else word of those that ended."""
        ends = self._reads & self._ends
        if self._reads <= ends & seen.ended:
            return self._end("finish")
        if self._draining and not self._runs_out and ends <= seen.ended and self._reads - ends:
            if self._at_once:
                return self._end("drain")
            return self._read_what_is_there()
        news = sorted((self._reads & seen.ended) - self._announced)
        self._announced.update(news)
        return [AnnounceEnd(uid, seen.batch_id) for uid in news]

    def _read_what_is_there(self) -> list[Action]:
        """A query that is still to be started is started so."""
        is_new, self.reads_what_is_there = not self.reads_what_is_there, True
        return [ReadWhatIsThere()] if is_new and self.phase is TaskPhase.RUNNING else []

    def _end(self, mode: EndMode) -> list[Action]:
        self.phase = TaskPhase.ENDING
        return [EndData(mode)]

    def _at_end(self) -> list[Action]:
        self.phase = TaskPhase.AT_END_OF_DATA
        return [Tell(SubtaskAtEndOfData(*self.task_id))]
