"""Release of completed checkpoints from outside a run, when no driver runs that would release them (R16).

The release needs no Spark. It claims the journal, so that an earlier driver can write nothing more. A later start of
the job fences this release. The release reads the logs without opening them, because it publishes nothing.

The module also checks that the sinks of a definition are the sinks of the job.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.job.changes import check_changes
from airflow_provider_ckpt.job.definition_parts import sink_definitions
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.jobmaster.errors import JobRunsError, ReleaseHeldError
from airflow_provider_ckpt.jobmaster.recovery.log_checks import check_whole
from airflow_provider_ckpt.jobmaster.recovery.takeover import claim
from airflow_provider_ckpt.jobmaster.release.release_policies import ReleasePolicies
from airflow_provider_ckpt.jobmaster.release.sink_releases import GateClosed, SinkReleases
from airflow_provider_ckpt.journal.events import CheckpointReleased, SinkReleased, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, run_command
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sinks.binding import bind_sinks
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output, refuse_older_journal
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader

_LOST = "the driver was lost; what it had completed was released from outside"


class _NothingLeftError(Exception):
    """Error if there is nothing to release, for example because another process has released it meanwhile."""


class RollForward:
    """One release from outside a run. Call :meth:`run` one time.

    ``driver_is_gone`` is True if the user states that an unreachable driver, or workers, are gone.
    """

    def __init__(
        self,
        storage: Storage,
        job: Job,
        job_id: str,
        root: Location,
        *,
        driver_is_gone: bool = False,
    ) -> None:
        self._storage, self._job, self._job_id = storage, job, job_id
        self._sinks = bind_sinks(job, job_id, root)
        self._driver_is_gone = driver_is_gone
        self._graph = JobGraph((), ())
        self._end_status = StatusChanged(JobStatus.RESTARTING, 0.0, _LOST)

    def run(self) -> list[CheckpointReleased]:
        """Release all completed checkpoints that are unreleased, in each sink independently.

        Return the journaled events; [] for no release. The job's status becomes RESTARTING if its driver was lost. The
        next run resumes as without this release.

        Raises JobRunsError, JobDeletedError, InvalidInputError, DefinitionChangedError, OutputLostError,
        CorruptJournalError, SubtaskLogLostError or FencedError. If a sink fails or is held, ReleaseHeldError or the
        sink's error is raised after the other sinks were released.
        """
        journal = Journal(self._storage, self._job_id)
        try:
            self._admit(journal.refresh())
            refuse_older_journal(journal, self._sinks)
            # The claim names no worker, because the next driver would end that process, which may be a user's. The
            # journal's state keeps the lost driver, so that the next release checks that driver.
            claim(journal, f"{journal.state.attempt}~release", Worker(), self._admit, releases_only=True)
        except _NothingLeftError:
            return []
        try:
            released = self._release(journal)
        except OvertakenError:
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            # a gate is user code, and a user may interrupt it
            with suppress(CkptError):
                self._write_end_status(journal)
            raise
        self._write_end_status(journal)
        return released

    def _admit(self, state: JobState) -> None:
        """Refuse a job whose output cannot be released now. The claim calls this again with the latest state."""
        state.refuse_deleted()
        definition = state.definition
        if not state.unreleased or definition is None:
            if state.damage:
                return  # the claim refuses a damaged journal
            raise _NothingLeftError
        self._check_driver(state)
        self._check_sinks(state, definition)
        status = state.status
        if status is not None and not status.is_alive:  # a live status was left by a lost driver
            self._end_status = StatusChanged(status, 0.0, state.cause)

    def _check_driver(self, state: JobState) -> None:
        alive = is_alive(state.worker)
        unknown = alive is None and state.is_held and not self._driver_is_gone
        if alive or unknown:
            driver = "lives" if alive else f"on {state.worker.host or 'a host unknown'} cannot be seen from here"
            stop = ckpt_command("stop", self._job_id, root=self._storage.uri)
            raise JobRunsError(
                "job {job_id!r} is {status}, and its driver {driver}: a driver releases by itself, and would be "
                "overtaken. Stop the job (`{stop}`), or wait until the driver has left. If you know that it is gone, "
                "on a host that cannot be seen from here, add --driver-is-gone (in Python driver_is_gone=True)",
                job_id=self._job_id,
                status=state.status,
                driver=driver,
                stop=stop,
            )
        if state.deployment and not self._driver_is_gone:  # its JobMaster is gone, but workers may live
            master = run_command("master", self._job_id, self._storage.uri)
            epoch = state.deployment
            raise JobRunsError(
                "job {job_id!r} is {status}, and was prepared for workers in epoch {deployment}: those that live "
                "would be overtaken, and end. Start `{master}` (in Airflow: the task that coordinates): it releases "
                "first, and resumes with them. If they are gone, or may end, add --driver-is-gone (in Python "
                "driver_is_gone=True)",
                job_id=self._job_id,
                status=state.status,
                deployment=epoch,
                master=master,
            )

    def _check_sinks(self, state: JobState, definition: JobDefinition) -> None:
        self._graph = state.graph()
        check_sinks(self._job, state, definition, self._sinks)

    def _release(self, journal: Journal) -> list[CheckpointReleased]:
        """Release in every sink. Return the journaled events. Raise the first failure after all sinks were tried."""
        state = journal.state
        logs = {
            name: TailingLogReader(self._storage, subtask_log_path(self._job_id, name.vertex, name.number))
            for name in self._graph.subtasks
        }
        check_whole(state, logs)
        policies = ReleasePolicies.of(self._job.sinks)
        releases = SinkReleases(self._job_id, lambda: self._graph, logs, self._sinks, policies)
        counts, failed, held = dict[str, dict[str, int]](), list[Exception](), dict[str, str]()
        number = state.unreleased[-1]
        # sinks that released it are skipped: their rows are counted already, and a repeated call would count none
        for uid in sorted(uid for uid, progress in state.released_by_sink().items() if progress.checkpoint < number):
            journal.check_fenced()
            try:
                counts[uid] = self._release_sink(uid, releases, state)
            except OvertakenError:
                raise
            except GateClosed as closed:
                held[uid] = closed.sink
            except Exception as error:
                failed.append(error)
        if not failed and not held:
            event = CheckpointReleased(number, time.time(), counts)
            journal.write(event)
            return [event]
        for uid, sink_counts in counts.items():
            journal.write(SinkReleased(uid, number, time.time(), sink_counts))
        if failed:
            raise failed[0]
        gates = ", ".join(sorted({*held.values()}))
        raise ReleaseHeldError(job=self._job_id, sinks=", ".join(held), gates=gates, checkpoint=number)

    def _release_sink(self, uid: str, releases: SinkReleases, state: JobState) -> dict[str, int]:
        return releases.carry_out(uid, state.checkpoints[state.unreleased[-1]], state.released_by_sink())

    def _write_end_status(self, journal: Journal) -> None:
        journal.write(replace(self._end_status, at=time.time()))


def check_sinks(job: HasSinks, state: JobState, definition: JobDefinition, sinks: Mapping[str, BoundSink]) -> None:
    """Refuse sinks that differ from the sinks in ``definition``, with which the job ran.

    Raises InvalidInputError, DefinitionChangedError or OutputLostError.
    """
    missing = {uid for vertex in state.graph().vertices for uid in vertex.sinks} - sinks.keys()
    if missing:
        raise InvalidInputError(
            "job {job_id!r} ran with the sinks {missing}, which the given definition lacks: their staged output could "
            "not be released; give the definition that the job ran with",
            job_id=state.job_id,
            missing=", ".join(sorted(missing)),
        )
    given = replace(definition, sinks=sink_definitions(job.sinks))
    check_changes(definition, given, {operator.uid: operator.sink.changeable for operator in job.sinks})
    refuse_lost_output(state, sinks)
