"""The decision about a task's next action, from its phase, the tail of its log, its inputs and its commands.

The module has no threads, no clock and no Spark. The streaming task, the batch task and the simulation use it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.reports import (
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.model.pause_reason import PauseReason
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.subtasklog.records import EndMode
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
from airflow_provider_ckpt.task.phase import TaskPhase


@dataclass(frozen=True)
class ReadProgress:
    """The progress of published batches.

    Attributes:
        ended: sources and input edges that were read to their end.
        inputs_ended: True if the end of every input edge is known, even if data before the end is unread.
        batch_id: number of the last published batch; -1 if there is none.
    """

    ended: frozenset[str]
    inputs_ended: bool
    batch_id: int


class TaskMachine:
    """The state machine of one attempt of one subtask. It is not thread-safe: its task calls it under one lock.

    A method takes a command or a fact, and returns the actions for it, in order. A call that does not fit the phase
    returns no action, because an earlier report has already answered a late command (R22).
    """

    def __init__(self, task_id: TaskId, ends: Collection[str]) -> None:
        """Create a machine in phase CREATED. ``ends``: sources and edges with an end that published batches show.

        Any other source is read until a drain, or until its query ends by itself.
        """
        self.task_id = task_id
        self.phase = TaskPhase.CREATED
        self.plan = VertexPlan(0, ())
        self._ends = frozenset(ends)
        self._reads: frozenset[str] = frozenset()
        self._announced: set[str] = set()
        self._pause: PauseReason | None = None
        self._draining = self._at_once = self._ends_by_itself = False
        self.reads_available = False
        """True if a drain lets the query read only the rows that its sources have at its start. The query then ends by
        itself."""

    # -- commands

    def deploy(
        self, plan: VertexPlan, end_of_data: EndMode | None, *, final_batch_planned: bool = False
    ) -> list[Action]:
        """Start with ``plan``.

        Args:
            end_of_data: mode of the end of data in the tail of the log; None if there is none. After an end of data
                nothing more is read (R11).
            final_batch_planned: True if an earlier attempt has planned the batch at the maximal watermark. Then only
                the end of data remains to be done (R12).
        """
        if self.phase is not TaskPhase.CREATED:
            return []
        self.plan = plan
        if end_of_data is not None:
            return self._at_end()
        if final_batch_planned:
            return self._end("drain")
        return self._build()

    def pause(self, reason: PauseReason) -> list[Action]:
        """Pause the query for ``reason``. A query that is being built or started pauses after that.

        A task that is already ending ignores the command and reports its end.
        """
        if self.phase is TaskPhase.STARTING:
            self._pause = reason
            return []
        if self.phase not in (TaskPhase.WAITING, TaskPhase.RUNNING):
            return []
        return self._pause_query(reason)

    def resume(self, plan: VertexPlan) -> list[Action]:
        if self.phase is not TaskPhase.PAUSED:
            return []
        self.plan, self._pause = plan, None
        return self._build()

    def drain(self, progress: ReadProgress, *, at_once: bool = False) -> list[Action]:
        """Read the bounded sources and edges to their ends, then the current data of the unbounded sources, and end.

        A query that ends by itself needs no further action. ``at_once``: end the unbounded sources without further
        reading.
        """
        self._draining, self._at_once = True, self._at_once or at_once
        return self.advance(progress)

    def finish(self) -> list[Action]:
        """Return the action that appends the end of partition; no action before the end of data."""
        return [EndPartition()] if self.phase is TaskPhase.AT_END_OF_DATA else []

    # -- facts

    def planned(self, reads: Collection[str], *, ends_by_itself: bool, progress: ReadProgress) -> list[Action]:
        """Record that the query is built.

        Args:
            reads: the sources and edges that the query reads.
            ends_by_itself: True if the query reads what its inputs have at its start, and then ends. Such a query
                starts when the ends of all input edges are known.
        """
        if self.phase is not TaskPhase.STARTING:
            return []
        self._reads = frozenset(reads) - frozenset(self.plan.dropped)
        self._announced &= set(self.plan.dropped)
        self._ends_by_itself = ends_by_itself
        ending = self._check_end(progress)
        if self._is_ending:
            return ending
        if self._pause is not None:
            return [*ending, *self._pause_query(self._pause)]
        if ends_by_itself and not progress.inputs_ended:
            self.phase = TaskPhase.WAITING
            return [*ending, self._running()]
        return [*ending, RunQuery()]

    def started(self, progress: ReadProgress) -> list[Action]:
        if self.phase is not TaskPhase.STARTING:
            return []
        if self._pause is not None:
            return self._pause_query(self._pause)
        self.phase = TaskPhase.RUNNING
        return [self._running(), *self._check_end(progress)]

    def advance(self, progress: ReadProgress) -> list[Action]:
        """Record progress: a published batch, or new entries in the logs of the inputs."""
        if self.phase not in (TaskPhase.WAITING, TaskPhase.RUNNING):
            return []
        if self.phase is TaskPhase.WAITING and progress.inputs_ended:
            self.phase = TaskPhase.RUNNING
            return [RunQuery(), *self._check_end(progress)]
        return self._check_end(progress)

    def query_ended(self) -> list[Action]:
        early = TaskPhase.STARTING  # the query may end before it is reported as running
        mode: EndMode = "drain" if self.reads_available else "finish"
        return self._end(mode) if self.phase in (early, TaskPhase.RUNNING) else []

    def paused_at(self, batch_id: int) -> list[Action]:
        if self.phase is not TaskPhase.PAUSING or self._pause is None:
            return []
        self.phase = TaskPhase.PAUSED
        return [PostReport(SubtaskPaused(*self.task_id, self._pause, batch_id))]

    def data_ended(self) -> list[Action]:
        return self._at_end() if self.phase is TaskPhase.ENDING else []

    def partition_ended(self) -> list[Action]:
        self.phase = TaskPhase.FINISHED
        return [PostReport(SubtaskDone(*self.task_id))]

    # -- what follows

    @property
    def _is_ending(self) -> bool:
        return self.phase is TaskPhase.ENDING

    def _build(self) -> list[Action]:
        self.phase, self.reads_available = TaskPhase.STARTING, False
        return [BuildQuery(self.plan)]

    def _running(self) -> Action:
        return PostReport(SubtaskRunning(*self.task_id, plan=self.plan.number))

    def _pause_query(self, reason: PauseReason) -> list[Action]:
        self.phase, self._pause = TaskPhase.PAUSING, reason
        return [PauseQuery()]

    def _check_end(self, progress: ReadProgress) -> list[Action]:
        """Return the action that ends the data if all sources have ended. Otherwise announce newly ended sources."""
        ends = self._reads & self._ends
        if self._reads <= ends & progress.ended:
            return self._end("finish")
        if self._draining and not self._ends_by_itself and ends <= progress.ended and self._reads - ends:
            if self._at_once:
                return self._end("drain")
            return self._read_available()
        newly_ended = sorted((self._reads & progress.ended) - self._announced)
        self._announced.update(newly_ended)
        return [AnnounceEnd(uid, progress.batch_id) for uid in newly_ended]

    def _read_available(self) -> list[Action]:
        """Let the query read what its sources have, and end. A running query restarts for that."""
        is_new, self.reads_available = not self.reads_available, True
        return [ReadAvailable()] if is_new and self.phase is TaskPhase.RUNNING else []

    def _end(self, mode: EndMode) -> list[Action]:
        self.phase = TaskPhase.ENDING
        return [EndData(mode)]

    def _at_end(self) -> list[Action]:
        self.phase = TaskPhase.AT_END_OF_DATA
        return [PostReport(SubtaskAtEndOfData(*self.task_id))]
