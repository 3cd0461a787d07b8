"""Taking a job over: claim, make sure that the driver before is gone, open every log (R8, R11)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.enumerator import RestoredSplits
from airflow_provider_ckpt.coordinator.subtask_table import RestoredState
from airflow_provider_ckpt.jobmaster.errors import SubtaskLogCutError, SubtaskLogLostError, SubtaskLogReopenedError
from airflow_provider_ckpt.jobmaster.owned_journal import OwnedJournal
from airflow_provider_ckpt.jobmaster.restore import RestorePoint
from airflow_provider_ckpt.journal.events import JobCreated, PlanRecorded, SubtaskFinished
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.requests import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import end_worker
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.channel import channels
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Open
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.layout import job_path, subtask_log_path
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage

GRACE = 10.0
"""Seconds a fenced driver on this host gets to leave by itself before it is killed."""


@dataclass(frozen=True)
class TakenOver:
    """``before``: what became of the driver before ("none" if there was none)."""

    epoch: int
    before: str
    resumed: bool


def claim(
    journal: Journal,
    attempt: str,
    worker: Worker,
    admit: Callable[[JobState], None] = lambda state: None,
    *,
    releases_only: bool = False,
) -> TakenOver:
    """Claim the next epoch, then see to it that the driver before is gone (only here may it be killed).

    ``attempt``: the caller's name for this try, for the journal. ``admit``, ``releases_only``: see
    :meth:`Journal.claim`. The driver before is the one whose epoch the claim ended, which need not be the one that was
    there when this driver began to get ready.
    """
    epoch = journal.claim(attempt, worker, time.time(), admit, releases_only=releases_only)
    before = end_worker(journal.predecessor, grace=GRACE) if journal.predecessor else "none"
    return TakenOver(epoch, before, journal.state.created is not None)


def record_plan(
    journal: OwnedJournal,
    job_id: str,
    graph: JobGraph,
    definition: JobDefinition,
    schemas: Mapping[str, str],
    options: Mapping[str, object],
    rescaled: Mapping[str, int] | None = None,
) -> None:
    """``schemas``: of each vertex's output, as Spark writes them; ``options``: of the run, without secrets;
    ``rescaled``: see :class:`PlanRecorded`."""
    now = time.time()
    state = journal.state
    if state.created is None:
        journal.write(JobCreated(job_id, graph, definition.mode, SubmittedOptions(options), now))
    before = state.definition
    kept = definition if before is None else definition.keeping(before)
    journal.write(PlanRecorded(graph, schemas, now, kept, rescaled or {}))


def load_logs(storage: Storage, job_id: str, graph: JobGraph) -> dict[SubtaskId, SubtaskLog]:
    logs: dict[SubtaskId, SubtaskLog] = {}
    for subtask in graph.subtasks:
        log = SubtaskLog(storage, subtask_log_path(job_id, subtask.vertex, subtask.number))
        log.load()
        logs[subtask] = log
    return logs


def check_whole(state: JobState, logs: Mapping[SubtaskId, LogReader]) -> None:
    """Raises SubtaskLogLostError if one ends before what the last completed checkpoint covers."""
    for subtask, snapshot in state.covering().items():
        if subtask in logs and snapshot.position >= max(1, logs[subtask].position):
            raise SubtaskLogLostError(
                log=logs[subtask].path,
                next=logs[subtask].position,
                covered=snapshot.position,
                checkpoint=state.last_completed,
            )


def check_read(graph: JobGraph, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """``logs``: loaded. Raises SubtaskLogCutError if one ends before what a consumer has read of it. Nothing is written
    before: the numbers of what is gone are still free."""
    for subtask, log in logs.items():
        last = log.state.last_batch
        inputs = last.inputs if last is not None else {}
        for channel in channels(graph, subtask):
            read, producer = inputs.get(channel.key, 0), logs[channel.producer]
            if read > producer.position:
                producer.load()  # a driver before us may have written to it, and to ours, since it was loaded
            if read > producer.position:
                raise SubtaskLogCutError(log=producer.path, next=producer.position, consumer=subtask, read=read - 1)


def _check_closed(state: JobState, logs: Mapping[SubtaskId, SubtaskLog]) -> None:
    """Raises SubtaskLogReopenedError: nobody would deploy a subtask that is finished, and nobody hear its end."""
    for subtask in sorted(state.finished & logs.keys()):
        log = logs[subtask]
        if not log.state.closed and not is_outdated(log, state.since(subtask.vertex)):
            raise SubtaskLogReopenedError(log=log.path, subtask=subtask)


def new_nonce() -> str:
    """Of an attempt (R5)."""
    return secrets.token_hex(4)


def first_attempts(epoch: int, subtasks: Iterable[SubtaskId]) -> dict[SubtaskId, AttemptId]:
    """Those of an epoch: each has a name of its own, by which what one subtask has staged is told from what another
    one has."""
    names, nonces = list(subtasks), set[str]()
    while len(nonces) < len(names):
        nonces.add(new_nonce())
    return {name: AttemptId.first(epoch, nonce) for name, nonce in zip(names, nonces, strict=True)}


def open_logs(
    journal: OwnedJournal, logs: Mapping[SubtaskId, SubtaskLog], epoch: int, mode: str, restore: RestorePoint | None
) -> dict[SubtaskId, AttemptId]:
    """Fence every attempt before, in every log, and take note of the ends that are in a log and not in the journal:
    the tail of the log decides (R11), and the driver before may not have come to say so.

    Returns the attempt of every subtask that is not finished; nobody else, but for a later one, appends to its log from
    here on. Raises SubtaskLogLostError, LogFencedError.
    """
    state = journal.state
    check_whole(state, logs)
    if restore is None:  # else what was read behind the checkpoint is void
        check_read(state.graph(), logs)
    attempts = first_attempts(epoch, logs)
    _check_closed(state, logs)
    for subtask, log in logs.items():
        void = (restore is not None and restore.is_anew) or is_outdated(log, state.since(subtask.vertex))
        if log.state.closed and not void:
            if subtask not in journal.state.finished:
                journal.write(SubtaskFinished(subtask, _owner(log), time.time()))
            del attempts[subtask]
            continue
        by_split = state.graph().vertex(subtask.vertex).splits
        goes_on = continues_at(log, batch=mode == "batch", by_split=by_split)
        if goes_on is None and restore is not None and (mode != "batch" or by_split):
            goes_on = restore.continues_at(subtask)
        log.open(attempts[subtask], 0 if void else goes_on)
    return attempts


def _owner(log: SubtaskLog) -> str:
    return "" if log.state.opened is None else str(log.state.opened.attempt)


def is_outdated(log: SubtaskLog, since: int) -> bool:
    """Nothing in it counts: its vertex was given up, or the job begun anew without it, and it has come back."""
    epochs = [record.epoch for _, record in log.records() if isinstance(record, Open)]
    return bool(epochs) and max(epochs) < since


def continues_at(log: SubtaskLog, *, batch: bool, by_split: bool) -> int | None:
    """Where the next attempt of a subtask goes on; None: behind all that is published. In BATCH one without its end of
    data is void as a whole (R23), but for splits: each counts by itself."""
    return 0 if batch and not by_split and log.state.end_of_data is None else None


def first_plan(state: JobState, subtask: SubtaskId) -> VertexPlan:
    """What a subtask runs when it is first deployed in an epoch: the coordinator says the same of what :func:`restored`
    gives it."""
    return VertexPlan(0, tuple(sorted(state.dropped.get(subtask.vertex, ()))))


def tidy_up(storage: Storage, job_id: str, epoch: int) -> None:
    """Remove what the drivers before left that nobody owns: files of killed writers, requests that were for them."""
    forget_requests(storage, job_id, epoch)
    storage.collect_temporary("", LEFT_BEHIND, deep=False)  # of probes
    storage.collect_temporary(job_path(job_id), LEFT_BEHIND)


def restored(state: JobState, splits: Mapping[str, RestoredSplits] | None = None) -> RestoredState:
    """What the coordinator starts from; ``splits``: of the sources that have some.
    Ends of data that are in a log only are told by the runners."""
    return RestoredState(
        last_triggered=state.last_triggered,
        last_completed=state.last_completed,
        last_released=state.last_released,
        unreleased=state.unreleased,
        ended={vertex: tuple(uids) for vertex, uids in state.ended.items()},
        dropped={vertex: tuple(uids) for vertex, uids in state.dropped.items()},
        end_of_data=frozenset(state.end_of_data),
        finished=frozenset(state.finished),
        snapshots=state.covering(),
        draining=state.draining,
        splits=splits or {},
    )
