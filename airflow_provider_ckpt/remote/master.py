"""A JobMaster in a process of its own, without Spark, that takes over after the previous JobMaster has died (W4, W9).

It claims the next epoch of the deployment that the job was prepared for. The workers continue meanwhile. When they read
the claim, they report their states to the new JobMaster.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from airflow_provider_ckpt.coordinator.protocol.messages import RunAbandoned
from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.jobmaster.assembly import job_master
from airflow_provider_ckpt.jobmaster.errors import AbandonedError
from airflow_provider_ckpt.jobmaster.gateway import Inbox
from airflow_provider_ckpt.jobmaster.job_identity import JobIdentity
from airflow_provider_ckpt.jobmaster.job_master import JobMaster, Outcome
from airflow_provider_ckpt.jobmaster.post_run import post_run
from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.jobmaster.recovery.attempt_names import new_nonce
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_whole
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import OwnedJournal, open_journal
from airflow_provider_ckpt.jobmaster.recovery.restored_state import restored
from airflow_provider_ckpt.jobmaster.recovery.split_progress import unread_splits
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.retention.collector import clean_up
from airflow_provider_ckpt.jobmaster.roll_forward import check_sinks
from airflow_provider_ckpt.journal.events import SubtaskFinished
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import forget_requests
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import identify, identify_shared
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import JOB_FILE, run_command
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.errors import NotPlannedError
from airflow_provider_ckpt.remote.mailbox import Mailbox, master_name
from airflow_provider_ckpt.remote.remote_gateway import RemoteGateway
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.remote.unassigned_subtasks import UnassignedSubtasks, vacancy_message
from airflow_provider_ckpt.sinks.binding import bind_sinks, output_folders
from airflow_provider_ckpt.sinks.file.journaled_sinks import recorded_job
from airflow_provider_ckpt.sinks.lost_output import refuse_older_journal
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import LineKind
from airflow_provider_ckpt.status.status_reporter import OnStatus, StatusReporter
from airflow_provider_ckpt.storage.credentials import wait_for_credentials
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailedLogs, TailingLogReader
from airflow_provider_ckpt.subtasklog.log_state import fold


@dataclass(frozen=True)
class RemoteJob:
    """The arguments of a JobMaster.

    Args:
        job: The job's sinks; None to read the sinks from the journal. Only some kinds of sinks can be read there (see
            :func:`~..sinks.file.journaled_sinks.recorded_job`).
        turns: A context in which the JobMaster works, if many JobMasters share a process that has other work. A
            successor must not kill that process. None for a process of its own.
    """

    job: HasSinks | None
    options: RunOptions
    location: Location
    timing: Timing
    turns: AbstractContextManager[object] | None = None

    @property
    def process(self) -> Worker:
        return identify() if self.turns is None else identify_shared()


OnMaster = Callable[["Master"], None]


def run_master(remote: RemoteJob, on_status: OnStatus, on_master: OnMaster = lambda master: None) -> ExitCode:
    """Run the job to its end, and return the exit code. Call ``on_master`` with the JobMaster before it runs.

    Failures are reported through ``on_status`` and are not raised.
    """
    status = StatusReporter(on_status, remote.options.job_id, None, remote.location.for_display())
    if remote.turns is None:  # no other JobMaster shares this process
        wait_for_credentials(remote.options.storage_timeout)
    try:
        with remote.turns or nullcontext():
            storage = read_root(open_storage(remote.location))
        master = Master(remote, storage, open_journal(storage, remote.options), status)
        on_master(master)
        return ExitCode.of_run(master.run().status)
    except AbandonedError as error:
        status.report(LineKind.WARNING, str(error))
        return ExitCode.of_error(error)
    except Exception as error:
        code = ExitCode.of_error(error)
        terminal = isinstance(error, CkptError) and not error.retryable
        message = str(error) if isinstance(error, CkptError) else kind_and_text(error)
        status.report(code.line_kind, message, terminal=terminal)
        return code


class Master:
    """A JobMaster that takes over a prepared job and runs it once. ``journal`` must not be claimed."""

    def __init__(self, remote: RemoteJob, storage: Storage, journal: Journal, status: StatusReporter) -> None:
        self._remote, self._journal, self._status = remote, journal, status
        self._storage, self._job_id = storage, remote.options.job_id
        self._job: HasSinks | None = remote.job
        self._sinks: Mapping[str, BoundSink] = {}
        self._inbox = Inbox()
        self._unassigned: UnassignedSubtasks | None = None
        self._job_master: JobMaster | None = None
        self._abandoned = threading.Event()

    def end_early(self, cause: str) -> None:
        """End the run as RESTARTING, because a subtask has no worker. Any thread may call this.

        Completed checkpoints are released first.
        """
        self._inbox.put(RunAbandoned(cause))

    def abandon(self) -> None:
        """Make :meth:`run` raise AbandonedError as soon as possible. Any thread may call this.

        The effect is that of a kill: the workers continue, and the next JobMaster takes over.
        """
        self._abandoned.set()
        if self._job_master is not None:
            self._job_master.abandon()

    @property
    def has_unassigned(self) -> bool:
        """True if the run has not begun, or if a subtask has no known worker. Any thread may read this."""
        return self._unassigned is None or self._unassigned.has_any

    def run(self) -> Outcome:
        """Claim the job and run it to its end, with all workers that start. Return how the run ended.

        Raises the errors of :meth:`take_over` and :meth:`make`, FencedError, and AbandonedError.
        """
        with self._remote.turns or nullcontext():
            self._refuse_abandoned()
            journal = self.take_over()
            self._job_master = self.make(journal)
            self._refuse_abandoned()
        outcome = self._job_master.run()
        self._finish_run(journal, outcome)
        return outcome

    def _refuse_abandoned(self) -> None:
        """Raise AbandonedError if :meth:`abandon` was called, perhaps before the run began."""
        if self._abandoned.is_set():
            raise AbandonedError(epoch=self._journal.state.epoch, job_id=self._job_id)

    def take_over(self) -> OwnedJournal:
        """Claim the next epoch of the deployment, and return the claimed journal.

        Raises NotPlannedError, JobRunsError, InvalidInputError, DefinitionChangedError, FencedError, and the storage's
        errors.
        """
        before = self._journal.refresh()
        self._find_sinks(before)
        deployment = self._admit(before)
        refuse_older_journal(self._journal, self._sinks)

        def admit(state: JobState) -> None:
            self._refuse_abandoned()  # a successor may own the job already, and this claim would fence it
            if self._admit(state) != deployment:
                raise self._not_planned("that of a newer deployment")

        attempt = self._remote.options.attempt or new_nonce()
        takeover_result = takeover.claim(self._journal, attempt, self._remote.process, admit, deployment=deployment)
        journal = OwnedJournal(self._journal)
        assert self._job is not None
        outputs = output_folders(self._job, self._remote.location)
        self._status.started(
            journal.state, takeover_result.predecessor, resumed=journal.state.last_completed > 0, outputs=outputs
        )
        return journal

    def _find_sinks(self, state: JobState) -> None:
        if self._job is None and state.definition is not None:
            self._job = recorded_job(state.definition, self._remote.location)
        if self._job is not None:
            self._sinks = bind_sinks(self._job, self._job_id, self._remote.location)

    def _admit(self, state: JobState) -> int:
        """Check that ``state`` allows the claim, and return the deployment's epoch. The claim repeats the check."""
        state.refuse_deleted()
        if self._remote.options.spare_driver:
            takeover.refuse_living_driver(state, time.time(), self._storage.uri)
        definition = state.definition
        if not state.deployment or definition is None or self._job is None:
            raise self._not_planned(state.status or "not known")
        check_sinks(self._job, state, definition, self._sinks)
        return state.deployment

    def _not_planned(self, status: str) -> NotPlannedError:
        plan = run_command("plan", self._job_id, self._storage.uri, self._remote.options.job or JOB_FILE)
        return NotPlannedError(job_id=self._job_id, status=status, plan=plan)

    def make(self, journal: OwnedJournal) -> JobMaster:
        """Make the JobMaster of a claimed job.

        Raises SubtaskLogLostError, and the storage's errors.
        """
        state, storage, options = journal.state, self._storage, self._remote.options
        graph, inbox, deployment = state.graph(), self._inbox, state.deployment
        logs = TailedLogs(storage, self._job_id, graph.subtasks)
        check_whole(state, logs)
        note_finished(journal, logs)
        assert state.created is not None
        assert self._job is not None
        return job_master(
            JobIdentity(storage, self._job_id, state.epoch, options, deployment),
            journal,
            self._gateway(journal, inbox),
            self._status,
            inbox,
            logs=logs,
            attempts={
                subtask: AttemptId.vacant(deployment) for subtask in graph.subtasks if subtask not in state.finished
            },
            restored=restored(state, unread_splits(storage, self._job_id, state, logs)),
            sinks=self._sinks,
            policies=ReleasePolicies.of(self._job.sinks),
            slots=sys.maxsize,  # no limit: every subtask with a worker runs, also one that a rescale adds
            controllers=self._job.controllers,
            turns=self._remote.turns,
        )

    def _gateway(self, journal: OwnedJournal, inbox: Inbox) -> RemoteGateway:
        state, timing = journal.state, self._remote.timing
        name = master_name(state.epoch)
        unfinished = [subtask for subtask in state.graph().subtasks if subtask not in state.finished]
        report = functools.partial(self._report_unassigned, journal)
        self._unassigned = UnassignedSubtasks(unfinished, report, time.monotonic())
        return RemoteGateway(
            Mailbox(self._storage, self._job_id, state.deployment, name, self._remote.process, time.monotonic),
            state.epoch,
            state.deployment,
            inbox.put,
            poll_interval=timing.poll,
            max_poll_interval=timing.rest,
            lost_after=timing.lost_after,
            previous_lost_after=self._remote.options.previous_worker_timeout if state.is_batch else None,
            unassigned=self._unassigned,
            check_fenced=journal.check_fenced,
            turns=self._remote.turns,
        )

    def _report_unassigned(self, journal: OwnedJournal, vacant: list[SubtaskId]) -> None:
        """Report subtasks without a worker, by the names that `--subtask` accepts."""
        state = journal.state
        subtasks = list(dict.fromkeys(state.hosts.get(subtask, subtask) for subtask in vacant))
        options = self._remote.options
        flags = [part for subtask in subtasks for part in ("--subtask", subtask)]
        worker = run_command("worker", self._job_id, self._storage.uri, options.job or JOB_FILE, *flags)
        message = vacancy_message(subtasks, options.checkpoint_timeout, is_batch=state.is_batch, worker=worker)
        self._status.report(LineKind.WAITING, message, state, subtasks=subtasks)

    def _finish_run(self, journal: OwnedJournal, outcome: Outcome) -> None:
        state, job_id, storage = journal.state, self._job_id, self._storage

        def forget() -> None:  # the clients read the answers in the journal
            forget_requests(storage, job_id, state.epoch + 1)

        def clean() -> None:
            clean_up(storage, job_id, state.graph(), self._sinks)

        post_run(self._status, state, "forgetting requests", forget)
        if outcome.status is JobStatus.FINISHED:
            post_run(self._status, state, "deleting what the job no longer needs", clean)
        self._status.ended(state, outcome.status, outcome.cause)


def note_finished(journal: OwnedJournal, logs: Mapping[SubtaskId, TailingLogReader]) -> None:
    """Journal the subtasks whose logs are closed but that the journal does not list as finished.

    The end of the log decides (R11). The previous JobMaster may have died before it journaled the end.
    """
    for subtask, log in logs.items():
        log_state = fold(log.records())
        if log_state.closed and log_state.opened is not None and subtask not in journal.state.finished:
            journal.write(SubtaskFinished(subtask, str(log_state.opened.attempt), time.time()))
