"""Changes to the next run of a job that is not running: new functions, and returns to declared settings (R21).

Such a change helps if a function or setting ends the job before the driver can read a request. This module tries no
function. The next run reads the file and refuses a function that does not fit. The change claims the journal, so that a
driver that still lives can write nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

from airflow_provider_ckpt.coordinator.change_scope import by_vertex, vertex_of
from airflow_provider_ckpt.coordinator.errors import ReconfigurationRefusedError
from airflow_provider_ckpt.errors import RequestFailure, RequestRefusedError
from airflow_provider_ckpt.journal.events import Reconfigured, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import VertexSettings, merged
from airflow_provider_ckpt.model.words import ckpt_command
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.storage import Storage

_LOST = "the driver was lost; its next run was given other functions"
_OVER = (JobStatus.FINISHED, JobStatus.DELETING, JobStatus.DELETED)
_UNTRIED = ("logic", "digests", "state_partitions")
"""Settings that the next run applies without a trial."""


class NextRunChange:
    """One change for the next run of a job. Call :meth:`assign` one time.

    Args:
        taken_back: Operator → settings that return to the declared values.
        driver_is_gone: True if the user states that an unreachable driver, or workers, are gone.
    """

    def __init__(
        self,
        storage: Storage,
        job_id: str,
        changes: Mapping[str, VertexSettings],
        taken_back: Mapping[str, Collection[str]] | None = None,
        *,
        driver_is_gone: bool,
    ) -> None:
        self._storage, self._job_id, self._changes = storage, job_id, changes
        self._taken_back = taken_back or {}
        self._driver_is_gone = driver_is_gone

    def assign(self) -> JobState:
        """Journal the changes, and return the new state. The job's status becomes RESTARTING if its driver was lost.

        Raises RequestRefusedError, JobDeletedError, CorruptJournalError, FencedError, and the storage's errors.
        """
        journal = Journal(self._storage, self._job_id)
        self._admit(journal.refresh())
        now = time.time()
        # no worker is named: nothing runs here, and the journal keeps the driver that was lost (see roll_forward)
        journal.claim(f"{journal.state.attempt}~reconfigure", Worker(), now, self._admit, releases_only=True)
        state = journal.state
        settings = self._settings(state)
        if settings != dict(state.settings):
            journal.write(Reconfigured(state.reconfigured + 1, settings, now))
        status = state.status
        if status is not None:
            event = StatusChanged(status, now, state.cause)
            journal.write(replace(event, status=JobStatus.RESTARTING, cause=_LOST) if status.is_alive else event)
        return journal.state

    def _admit(self, state: JobState) -> None:
        """Refuse a job that cannot have this change. The claim calls this again with the latest state."""
        state.refuse_deleted()
        if state.damage:
            return  # the claim refuses a damaged journal
        if state.status in _OVER:
            raise self._impossible(f"it is {state.status}, and does not run again")
        if state.plan is None:
            why = "no run of it has recorded a plan, and the next run reads the functions of the job's own file"
            raise self._impossible(why)
        alive = is_alive(state.worker) if state.is_held else False
        driver = None
        if alive or (alive is None and not self._driver_is_gone):
            driver_state = "lives" if alive else f"on {state.worker.host or 'a host unknown'} cannot be seen from here"
            driver = f"its driver {driver_state}"
        elif state.deployment and not self._driver_is_gone:
            driver = f"it was prepared for workers in epoch {state.deployment}: those that live would be overtaken"
        if driver is not None:
            stop = ckpt_command("stop", self._job_id, root=self._storage.uri)
            raise RequestRefusedError(
                "job {job_id!r} is {status}, and {driver}. Ask the driver for the change (without --next-run), or "
                "stop the job first (`{stop}`). If you know that no process runs it, add --driver-is-gone (in Python "
                "driver_is_gone=True)",
                reason=RequestFailure.STILL_RUNNING,
                job_id=self._job_id,
                status=state.status,
                driver=driver,
                stop=stop,
            )
        self._settings(state)

    def _impossible(self, why: str) -> RequestRefusedError:
        return RequestRefusedError(
            "the next run of job {job_id!r} cannot have this change: {why}",
            reason=RequestFailure.NOT_FOR_NEXT_RUN,
            job_id=self._job_id,
            why=why,
        )

    def _settings(self, state: JobState) -> dict[str, VertexSettings]:
        try:
            change = by_vertex(state.graph(), self._changes) if self._changes or not self._taken_back else {}
            taken_back = [(vertex_of(state.graph(), uid).uid, names) for uid, names in self._taken_back.items()]
        except ReconfigurationRefusedError as error:
            raise self._impossible(error.data["why"]) from None
        for uid, setting in change.items():
            self._refuse_untried(state, uid, setting)
        settings = merged(state.settings, change)
        for uid, names in taken_back:
            settings[uid] = settings.get(uid, VertexSettings()).without(names)
        return {uid: setting for uid, setting in settings.items() if not setting.is_declared}

    def _refuse_untried(self, state: JobState, uid: str, change: VertexSettings) -> None:
        """Refuse settings that need a trial on a running query. The number of state partitions needs none."""
        for name in (field.name for field in fields(VertexSettings) if field.name not in _UNTRIED):
            if getattr(change, name) is not None:
                why = (
                    f"{name} is tried on queries that run, and can be changed while they do. Without a driver it can "
                    f"only be taken back: {name}=declared"
                )
                raise self._impossible(why)
        vertex = None if state.plan is None else state.plan.definition.vertices.get(uid)
        if change.state_partitions is not None and (vertex is None or not vertex.stateful):
            raise self._impossible(f"{uid} keeps no state that could be repartitioned")
