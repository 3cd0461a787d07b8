"""Events of an epoch: a driver claims the job, may restore a checkpoint, and records its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.journal.kinds.checkpoints import Checkpoints
from airflow_provider_ckpt.journal.kinds.deletion import Deletion
from airflow_provider_ckpt.journal.kinds.event import JournalEvent
from airflow_provider_ckpt.journal.kinds.reconciliation import Reconciled
from airflow_provider_ckpt.journal.kinds.requests import forget_answered, requeue_taken
from airflow_provider_ckpt.journal.kinds.splits import drop_splits, rewind_splits, unassign_all
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker


@dataclass
class Epochs(Deletion, Checkpoints, Reconciled):
    epoch: Count = 0
    attempt: str | None = None
    worker: Worker = field(default_factory=Worker)
    plan: PlanRecorded | None = None
    restored: Count = 0
    """The checkpoint to which the last restore set the job back; 0 if there was no restore. ``restored_epoch`` is the
    epoch of the driver that began this restore, or 0."""
    restored_epoch: Count = 0
    introduced: dict[str, tuple[int, int]] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Operator → (epoch that added it after other epochs had run, last checkpoint that had completed before). Earlier
    results under the operator's uid do not count."""
    abandoned: set[str] = field(default_factory=set, metadata=OMIT_EMPTY)
    """Uids of all operators that the job has ever dropped, even if they came back."""
    prepared_by: str | None = field(default=None, metadata=OMIT_EMPTY)
    """Value of ``attempt`` when the current or last deployment was prepared; None after a claim without workers."""
    driver_since: Count = field(default=0, metadata=OMIT_EMPTY)
    """The first epoch of the current driver if it has upgraded the job, else 0. The driver reads requests from this
    epoch on."""
    from_scratch_epoch: Count = field(default=0, metadata=OMIT_EMPTY)
    """Epoch of the last restart from scratch; 0 if there was none."""


@dataclass(frozen=True)
class EpochClaimed(JournalEvent):
    """A driver claimed the job. This event is never deleted (R3)."""

    epoch: Count
    attempt: str
    worker: Worker
    at: Instant
    releases_only: bool = field(default=False, metadata=OMIT_EMPTY)
    """True if the claiming process runs no query: it releases, deletes the job, or changes its next run. Such a claim
    does not change the job's status."""
    deployment: Count = field(default=0, metadata=OMIT_EMPTY)
    """The epoch of the deployment whose JobMaster claims the job; 0 for any other claim. The workers of the deployment
    continue, with their assigned splits (W4)."""
    upgrades: Count = field(default=0, metadata=OMIT_EMPTY)
    """First epoch of the driver, if it claims the job again for an upgrade to another version; 0 for other claims."""

    def apply(self, state: Epochs) -> None:
        state.epoch, state.attempt = self.epoch, self.attempt
        if not self.releases_only:  # a release keeps the worker of the lost driver, for later checks
            state.worker = self.worker
        state.pending = 0
        state.driver_since = (state.driver_since or self.upgrades) if self.upgrades else 0
        state.deployment = self.deployment
        if self.deployment:
            requeue_taken(state)
        else:
            state.prepared_by = state.running_since = None
            state.taken.clear()  # their authors learn that the driver was overtaken
            unassign_all(state)
            if not self.upgrades:  # an upgraded driver must not take a request again that it has answered
                forget_answered(state)
        resumes = self.deployment and state.running_since is not None  # the workers continue to publish
        if state.status is not None and not (self.releases_only or resumes):
            state.status, state.cause = JobStatus.CREATED, None  # the end of the previous run does not count


@dataclass(frozen=True)
class PlanRecorded(JournalEvent):
    """The plan of this epoch: graph, schemas and definition.

    Args:
        schemas: Vertex uid → output schema as Spark's JSON text.
        definition: Definition of the job. A later start compares its own definition with this one.
    """

    graph: JobGraph
    schemas: Mapping[str, str]
    at: Instant
    definition: JobDefinition
    rescaled: Mapping[str, int] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Source with splits → number of its subtasks, if a user rescaled it while the job ran. Later runs use this number
    until the job declares another ``parallelism``."""
    settings: Mapping[str, VertexSettings] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Vertex → settings that users changed while the job ran. Later runs use them, too."""
    code: JobCode | None = field(default=None, metadata=OMIT_EMPTY)
    """Digests of the job's file, as the planner read it. Workers must run the same code. None if there
    was no source file."""
    hosts: Mapping[SubtaskId, SubtaskId] = field(default_factory=dict, metadata=OMIT_EMPTY)
    """Subtask that a rescale added while workers ran the job → its host, the subtask in whose process it runs. The
    number of processes cannot grow, because Airflow plans its tasks earlier."""
    waiting: tuple[SubtaskId, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Subtasks of ``hosts`` that must not begin before :class:`SubtasksAdded` names them."""

    def apply(self, state: Epochs) -> None:
        if state.plan is not None:
            before, after = set(state.plan.graph.operators), set(self.graph.operators)
            for uid in after - before:
                state.introduced[uid] = (state.epoch, state.last_completed)
            for uid in before - after:
                _drop_operator(state, uid)
        state.plan = self


@dataclass(frozen=True)
class DeploymentPrepared(JournalEvent):
    """A planner has opened the logs, and set the Spark folders to the point from which this epoch's plan continues.

    From here on workers may begin, and a JobMaster may claim the next epoch for them (W9, W19). If a planner dies
    before this event, the next planner prepares everything again.
    """

    epoch: Count
    at: Instant

    def apply(self, state: Epochs) -> None:
        state.deployment, state.prepared_by = self.epoch, state.attempt


@dataclass(frozen=True)
class SubtasksAdded(JournalEvent):
    """All consumers of the new ``subtasks`` have resumed, and read the outputs of the new subtasks, too (R21).

    After this event checkpoints include the subtasks, and the workers of their hosts begin them. If a new subtask began
    earlier, a consumer could read the subtask's log beyond a checkpoint without this subtask.
    """

    subtasks: tuple[SubtaskId, ...]
    at: Instant

    def apply(self, state: Epochs) -> None:
        if state.plan is not None:
            waiting = tuple(subtask for subtask in state.plan.waiting if subtask not in self.subtasks)
            state.plan = replace(state.plan, waiting=waiting)


@dataclass(frozen=True)
class Restored(JournalEvent):
    """The job is set back to the completed ``checkpoint``, or restarted from scratch (R4).

    Sources that ended or were dropped after the checkpoint are read again, and subtasks that finished after the
    checkpoint run again.

    Args:
        dropped: Vertex → source → last batch before the source was dropped, if that was before the checkpoint.
        from_scratch: True for a restart from scratch, to no checkpoint. The ends of sources are then frozen again.
    """

    checkpoint: Count
    dropped: Mapping[str, Mapping[str, int]]
    at: Instant
    from_scratch: bool = field(default=False, metadata=OMIT_EMPTY)

    def apply(self, state: Epochs) -> None:
        # A checkpoint that is no longer remembered ends no source here, because the subtasks' logs decide (R11).
        checkpoint = None if self.from_scratch else state.checkpoints.get(self.checkpoint)
        snapshots = checkpoint.subtasks if checkpoint else {}
        state.ended = {}
        for subtask, snapshot in snapshots.items():
            batch = -1 if snapshot.batch_id is None else snapshot.batch_id
            for uid in snapshot.ended:
                state.ended.setdefault(subtask.vertex, {})[uid] = batch
        state.dropped = {vertex: dict(uids) for vertex, uids in self.dropped.items()}
        state.end_of_data = {subtask for subtask, snapshot in snapshots.items() if snapshot.finished}
        state.finished = {subtask for subtask, snapshot in snapshots.items() if snapshot.finished_on_restore}
        state.draining = False
        rewind_splits(state, 0 if self.from_scratch else self.checkpoint)
        if self.from_scratch:
            state.frozen, state.from_scratch_epoch, state.abandoned = {}, state.epoch, set()
        state.restored, state.restored_epoch = self.checkpoint, state.epoch


def _drop_operator(state: Epochs, uid: str) -> None:
    """Remove all decisions about a dropped operator. An operator that comes back under its uid is a new operator."""
    state.abandoned.add(uid)
    state.frozen.pop(uid, None)
    drop_splits(state, uid)
    for uids in (*state.ended.values(), *state.dropped.values()):
        uids.pop(uid, None)
    state.ended.pop(uid, None)
    state.dropped.pop(uid, None)
    for subtasks in (state.end_of_data, state.finished):
        subtasks -= {subtask for subtask in subtasks if subtask.vertex == uid}
