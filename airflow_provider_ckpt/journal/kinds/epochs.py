"""Epochs: a driver takes the job over, goes back to a checkpoint if it is to, and records what it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.journal.kinds.checkpoints import Checkpoints
from airflow_provider_ckpt.journal.kinds.deletion import Deletion
from airflow_provider_ckpt.journal.kinds.event import ADDED, JournalEvent
from airflow_provider_ckpt.journal.kinds.reconciliation import Reconciled
from airflow_provider_ckpt.journal.kinds.requests import forget_answered, take_again
from airflow_provider_ckpt.journal.kinds.splits import forget_assigned, give_up_splits, rewind_splits
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker


@dataclass
class Epochs(Deletion, Checkpoints, Reconciled):
    epoch: Count = 0
    attempt: str | None = None
    worker: Worker = field(default_factory=Worker)
    plan: PlanRecorded | None = None
    restored: Count = field(default=0, metadata=ADDED)
    """The checkpoint that the last restore went back to; ``restored_epoch``: of the driver that began it, 0 if there
    was no restore."""
    restored_epoch: Count = field(default=0, metadata=ADDED)
    introduced: dict[str, tuple[int, int]] = field(default_factory=dict, metadata=LATER)
    """Operator uid -> the epoch that brought it into a job which had been running without, and the last checkpoint by
    then: what attempts of that uid did before, when it was in the job once already, does not count."""
    given_up: set[str] = field(default_factory=set, metadata=LATER)
    """Uids of operators that the job had and has no longer, or had not for a while."""
    prepared_by: str | None = field(default=None, metadata=LATER)
    """The attempt that has prepared the deployment of now, or the one that ended last; None as soon as somebody else
    takes the job."""
    driver_since: Count = field(default=0, metadata=LATER)
    """The first epoch of the driver of now, if it was upgraded: what was asked of that one, or of one since, it takes.
    0: it was not."""
    anew_epoch: Count = field(default=0, metadata=LATER)
    """Of the driver that began the job anew, last; 0 if none did."""


@dataclass(frozen=True)
class EpochClaimed(JournalEvent):
    """A driver took the job over. Never deleted (R3)."""

    epoch: Count
    attempt: str
    worker: Worker
    at: Instant
    releases_only: bool = field(default=False, metadata=LATER)
    """It is no run: the job's status stands until the release is done and says what it leaves, so also if whoever
    releases is killed. So of a deletion, until it has begun."""
    deployment: Count = field(default=0, metadata=LATER)
    """The epoch of the deployment whose JobMaster claims: its workers go on, with what they were handed out (W4)."""
    upgrades: Count = field(default=0, metadata=LATER)
    """The epoch of the same driver, as the version of the job that was before: the job was at a savepoint of it."""

    def apply(self, state: Epochs) -> None:
        state.epoch, state.attempt = self.epoch, self.attempt
        if not self.releases_only:  # else the driver that was lost is still the one to ask about
            state.worker = self.worker
        state.pending = 0
        state.driver_since = (state.driver_since or self.upgrades) if self.upgrades else 0
        state.deployment = self.deployment
        if self.deployment:
            take_again(state)
        else:
            state.prepared_by = state.running_since = None
            state.taken.clear()  # who asked is told that the driver was overtaken
            forget_assigned(state)
            if not self.upgrades:  # the same driver takes none again that it has answered, however long ago
                forget_answered(state)
        goes_on = self.deployment and state.running_since is not None  # the workers publish, whoever claims
        if state.status is not None and not (self.releases_only or goes_on):
            state.status, state.cause = JobStatus.CREATED, None  # how the run before ended says nothing about this one


@dataclass(frozen=True)
class PlanRecorded(JournalEvent):
    """What this epoch runs: the graph, the schemas (vertex uid -> Spark's schema JSON), and the definition, which a
    later start is compared with (None in journals from before it was recorded: see ``JobState.definition``)."""

    graph: JobGraph
    schemas: Mapping[str, str]
    at: Instant
    definition: JobDefinition | None = field(default=None, metadata=LATER)
    rescaled: Mapping[str, int] = field(default_factory=dict, metadata=LATER)
    """Source with splits -> how many subtasks are to read it, where somebody has asked for that while the job ran: it
    holds for later runs as long as the job declares the ``parallelism`` that it did then."""
    settings: Mapping[str, VertexSettings] = field(default_factory=dict, metadata=LATER)
    """What somebody has changed while the job ran, by vertex: it holds until it is changed again."""
    code: JobCode | None = field(default=None, metadata=LATER)
    """Of the job's file, as whoever has planned read it: its workers have to run the same. None in journals that do not
    tell, and where there was no source."""
    hosts: Mapping[SubtaskId, SubtaskId] = field(default_factory=dict, metadata=LATER)
    """Of the subtasks that a rescale has added while workers ran the job: beside which one each of them runs. Whoever
    is asked to run that one runs both: Airflow's tasks are as many as were planned."""
    waiting: tuple[SubtaskId, ...] = field(default=(), metadata=LATER)
    """Of these, the ones that nobody is to begin yet (:class:`SubtasksAdded`)."""

    def apply(self, state: Epochs) -> None:
        if state.plan is not None:
            before, after = set(state.plan.graph.operators), set(self.graph.operators)
            for uid in after - before:
                state.introduced[uid] = (state.epoch, state.last_completed)
            for uid in before - after:
                _give_up(state, uid)
        state.plan = self


@dataclass(frozen=True)
class DeploymentPrepared(JournalEvent):
    """Everything is as this epoch's plan says: the logs are open, the Spark folders where it goes on from. Workers may
    begin, and a JobMaster that claims the next epoch for them (W9, W19). Before this nobody may: whoever has prepared
    half of it is followed by another planner, which does it again."""

    epoch: Count
    at: Instant

    def apply(self, state: Epochs) -> None:
        state.deployment, state.prepared_by = self.epoch, state.attempt


@dataclass(frozen=True)
class GraphChanged(JournalEvent):
    """The job runs another graph from here on, in the same epoch: the commit point of that change (R21). ``number``: of
    the plan, 1 for the first change in the epoch; ``rescaled``: what was asked for, as in :class:`PlanRecorded`;
    ``hosts``: of the subtasks that the graph gets, as there; empty if one driver runs all."""

    number: Count
    graph: JobGraph
    rescaled: Mapping[str, int]
    at: Instant
    hosts: Mapping[SubtaskId, SubtaskId] = field(default_factory=dict, metadata=LATER)

    def apply(self, state: Epochs) -> None:
        if state.plan is not None:
            rescaled = {**state.plan.rescaled, **self.rescaled}
            hosts, waiting = {**state.plan.hosts, **self.hosts}, (*state.plan.waiting, *self.hosts)
            state.plan = replace(state.plan, graph=self.graph, rescaled=rescaled, hosts=hosts, waiting=waiting)


@dataclass(frozen=True)
class SubtasksAdded(JournalEvent):
    """From here on checkpoints are of these, too, and all who read them know them: whoever runs the ones beside which
    they were put begins them. Not before: an attempt opens its log, others read that entry, and a checkpoint that does
    not know the subtask would say that they have read what it does not have."""

    subtasks: tuple[SubtaskId, ...]
    at: Instant

    def apply(self, state: Epochs) -> None:
        if state.plan is not None:
            waiting = tuple(one for one in state.plan.waiting if one not in self.subtasks)
            state.plan = replace(state.plan, waiting=waiting)


@dataclass(frozen=True)
class Restored(JournalEvent):
    """The job was taken back to a completed checkpoint (R4): what ended, was dropped or finished after it is
    running again. ``dropped``: vertex -> uids that were dropped at or before the checkpoint's batches.
    ``anew``: to nothing at all, as no checkpoint covers anything; the ends of its sources are frozen anew."""

    checkpoint: Count
    dropped: Mapping[str, Mapping[str, int]]
    at: Instant
    anew: bool = field(default=False, metadata=LATER)

    def apply(self, state: Epochs) -> None:
        # A checkpoint that is no longer remembered ended nothing: the subtask logs say what did (R11).
        done = None if self.anew else state.checkpoints.get(self.checkpoint)
        snapshots = done.subtasks if done else {}
        state.ended = {}
        for subtask, snapshot in snapshots.items():
            batch = -1 if snapshot.batch_id is None else snapshot.batch_id
            for uid in snapshot.ended:
                state.ended.setdefault(subtask.vertex, {})[uid] = batch
        state.dropped = {vertex: dict(uids) for vertex, uids in self.dropped.items()}
        state.end_of_data = {subtask for subtask, snapshot in snapshots.items() if snapshot.finished}
        state.finished = {subtask for subtask, snapshot in snapshots.items() if snapshot.finished_on_restore}
        state.draining = False
        rewind_splits(state, 0 if self.anew else self.checkpoint)
        if self.anew:
            state.frozen, state.anew_epoch, state.given_up = {}, state.epoch, set()
        state.restored, state.restored_epoch = self.checkpoint, state.epoch


def _give_up(state: Epochs, uid: str) -> None:
    """Nothing that was decided about an operator outlives it: one that comes back under its uid is a new one."""
    state.given_up.add(uid)
    state.frozen.pop(uid, None)
    give_up_splits(state, uid)
    for uids in (*state.ended.values(), *state.dropped.values()):
        uids.pop(uid, None)
    state.ended.pop(uid, None)
    state.dropped.pop(uid, None)
    for subtasks in (state.end_of_data, state.finished):
        subtasks -= {subtask for subtask in subtasks if subtask.vertex == uid}
