"""The hook for jobs and checkpoints under a checkpoint root, for Dag authors and for the other Airflow parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import amask_secret, mask_secret

from airflow_provider_ckpt.client.errors import NoSuchJobError
from airflow_provider_ckpt.hooks.connection_settings import location_of
from airflow_provider_ckpt.hooks.driver_connections import connections_here
from airflow_provider_ckpt.hooks.errors import (
    InvalidCkptConnectionError,
    NoCheckpointRootError,
    ReconfigurationFailedError,
)
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.root import check_root_of_run
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.garbage_collection import GarbageReport
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletedJob
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
    from airflow_provider_ckpt.model.job_request import JobRequest

_TOAST = 200
"""Number of characters that a user can read before Airflow hides the message of the *Test* button."""
_NAMED = 3
"""Maximum number of damaged jobs that the message of the *Test* button names."""


class CheckpointHook(BaseHook):
    """Access to the jobs under a checkpoint root. Only requests, deletions and ``test_connection`` write.

    :param ckpt_conn_id: connection of type ``ckpt``: host = root URI, extra ``storage_options`` = a JSON object for
        fsspec, login and password = key and secret of S3.
    :param root: root URI, overrides the connection's. With ``root`` the default connection need not exist.
    """

    conn_name_attr = "ckpt_conn_id"
    default_conn_name = "ckpt_default"
    conn_type = "ckpt"
    hook_name = "Checkpoint root (ckpt)"

    def __init__(
        self,
        ckpt_conn_id: str | None = default_conn_name,
        *,
        root: str | None = None,
        logger_name: str | None = None,
    ) -> None:
        super().__init__(logger_name=logger_name)
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self._settings: Location | None = None
        self._storage: Storage | None = None

    @property
    def root_uri(self) -> str:
        return self.settings().uri

    def settings(self) -> Location:
        """Return root and storage options. The hook reads the connection once, and masks its secrets in logs.

        Raises:
            NoCheckpointRootError: there is no root.
            InvalidCkptConnectionError: the connection cannot be used.
            AirflowNotFoundException: the connection that the user named does not exist.
        """
        if self._settings is None:
            try:
                connection = self.get_connection(self.ckpt_conn_id) if self.ckpt_conn_id else None
            except AirflowNotFoundException:
                self._raise_unless_default()
                connection = None
            with refused_as(self._bad_extra):
                extra = connection.extra_dejson if connection else {}
            self._settings = location_of(self.ckpt_conn_id, connection, extra, self.root)
            for secret in self._settings.secrets():
                mask_secret(secret)
        return self._settings

    async def asettings(self) -> Location:
        """Return :meth:`settings` in a trigger. After this call every other method may be called in a thread."""
        if self._settings is None:
            try:
                connection = await self.aget_connection(self.ckpt_conn_id) if self.ckpt_conn_id else None
            except AirflowNotFoundException:
                self._raise_unless_default()
                connection = None
            with refused_as(self._bad_extra):
                extra = await connection.aextra_dejson() if connection else {}
            self._settings = location_of(self.ckpt_conn_id, connection, extra, self.root)
            for secret in self._settings.secrets():
                await amask_secret(secret)
        return self._settings

    def _bad_extra(self, _: str) -> InvalidCkptConnectionError:
        return InvalidCkptConnectionError(conn_id=self.ckpt_conn_id, problem="its extra is not a JSON object")

    def _raise_unless_default(self) -> None:
        """Re-raise the current exception, except for the default connection, which need not exist."""
        if self.ckpt_conn_id != self.default_conn_name:
            raise

    def get_conn(self) -> Storage:
        return self.storage()

    def storage(self) -> Storage:
        """Return the storage of the root. Reads and writes nothing."""
        if self._storage is None:
            self._storage = open_storage(self.settings())
        return self._storage

    def jobs(self) -> list[JobState]:
        """Return every job under the root that is not DELETED.

        Raises NoRootError if the folder is no root.
        """
        from airflow_provider_ckpt.client.job_client import list_jobs

        return list_jobs(self.storage())

    def collect_garbage(self, job_id: str | None = None, *, delete: bool = False) -> GarbageReport:
        """Report the files that are no longer needed, of all jobs or of one job. If ``delete`` is True, delete them.

        See the function :func:`~..client.garbage_collection.collect_garbage`. Raises NoRootError if the folder is no
        root, and NoSuchJobError if there is no such job.
        """
        from airflow_provider_ckpt.client.garbage_collection import collect_garbage

        return collect_garbage(self.settings(), job_id, delete=delete)

    def client(self, job_id: str) -> JobClient:
        from airflow_provider_ckpt.client.job_client import JobClient

        return JobClient(self.settings(), job_id)

    def job(self, job_id: str) -> JobState:
        """Return the job's state from its journal. ``damage`` of the state lists errors of the journal.

        Raises NoSuchJobError if there is no such job, or no root.
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).state()

    def checkpoints(self, job_id: str) -> list[CheckpointView]:
        """Return the checkpoints that the journal remembers (the last 100), oldest first.

        Raises NoSuchJobError if there is no such job, or no root.
        """
        return self.job(job_id).checkpoint_views()

    def stop(self, job_id: str) -> str:
        """Ask the job's driver to release a savepoint and exit. The job's next run resumes from the savepoint.

        The method does not wait. It returns the name of the request, under which the journal has the answer
        (``JobState.answered``).

        Raises NoSuchJobError if there is no such job, and RequestFailedError if no driver has the job (NOT_RUNNING).
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).stop().name

    def drain(self, job_id: str, *, at_once: bool = False, discard_timers: bool = False) -> str:
        """Ask the job's driver to read the present data, take the final checkpoint and end the job FINISHED.

        Returns the request's name, like :meth:`stop`.

        Args:
            at_once: True to end live sources at their current positions, without reading the data that waits in them.
            discard_timers: True to discard the timers of processing time for which the job's state waits.

        Raises NoSuchJobError if there is no such job. Raises RequestFailedError if no driver has the job (NOT_RUNNING),
        or if its state waits for timers and ``discard_timers`` is False (TIMERS_WAIT).
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).drain(at_once=at_once, discard_timers=discard_timers).name

    def rescale(self, job_id: str, uid: str, parallelism: int) -> str:
        """Ask the job's driver to read a source with splits with ``parallelism`` subtasks, while the job runs.

        Returns the request's name, like :meth:`stop`.

        Raises NoSuchJobError if there is no such job. Raises RequestFailedError if no driver has the job (NOT_RUNNING),
        or if the source has no splits or cannot have that number of subtasks (NOT_RESCALABLE).
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).rescale(uid, parallelism).name

    @contextmanager
    def reconfigure(self, job_id: str, *, timeout: float | None = 600.0) -> Iterator[Reconfiguration]:
        """Change queries of a running job. The changes in the block are requested together at its end::

            with hook.reconfigure("orders") as change:
                change.assign_workload("daily_revenue", state_partitions=16)

        Args:
            timeout: Seconds to wait until the queries run with the changes. None means no wait.

        Raises:
            NoSuchJobError: there is no such job.
            RequestFailedError: no driver has the job (NOT_RUNNING), the job does not allow the change
                (NOT_RECONFIGURABLE), the change failed and the job continues unchanged (RECONFIGURATION_FAILED), or
                ``timeout`` has passed (NOT_RECONFIGURED).
        """
        from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration

        change = Reconfiguration()
        yield change
        with self._no_root_no_job(job_id):
            client = self.client(job_id)
            request = client.reconfigure(change)
            if timeout is not None:
                self._await_change(client, request, timeout)

    def upgrade(
        self,
        job_id: str,
        job: str | None = None,
        *,
        allow_non_restored_state: bool = False,
        timeout: float | None = 600.0,
    ) -> str:
        """Replace a running job by another version of it, in the same driver. See :meth:`JobClient.upgrade`.

        Returns the request's name.

        Args:
            job: Reference of the version. None means the job's own reference, which is read again.
            allow_non_restored_state: True to allow a version without some of the job's operators.
            timeout: Seconds to wait until the version runs. None means no wait.

        Raises:
            NoSuchJobError: there is no such job.
            RequestFailedError: no driver has the job (NOT_RUNNING), the job cannot resume as this version
                (NOT_UPGRADABLE), the upgrade failed and the job continues unchanged (RECONFIGURATION_FAILED), or
                ``timeout`` has passed (NOT_UPGRADED).
        """
        with self._no_root_no_job(job_id):
            client = self.client(job_id)
            request = client.upgrade(job, allow_non_restored_state=allow_non_restored_state)
            if timeout is not None:
                self._await_change(client, request, timeout)
            return request.name

    @staticmethod
    def _await_change(client: JobClient, request: JobRequest, timeout: float) -> None:
        answer = client.answer(request, timeout)
        if not answer.is_served:
            outcome = answer.outcome or f"its driver ended the job {answer.state.status} without an answer"
            raise ReconfigurationFailedError(job_id=client.job_id, outcome=outcome)

    def delete(
        self,
        job_id: str,
        job: Job | None = None,
        *,
        unfinished: bool = False,
        abandoned: bool = False,
        discard_unreleased: bool = False,
        keep_staged: bool = False,
        persisted: bool = False,
        conn_ids: Iterable[str] = (),
    ) -> DeletedJob:
        """Delete the files of a job that is over and its staged output, never its released output.

        :meth:`JobClient.delete` describes the arguments. ``conn_ids`` are the Airflow connections that the sinks of
        ``job`` use.

        Raises:
            NoSuchJobError: there is no such job.
            DeletionRefusedError: the job is not over, has unreleased output, or keeps results for other jobs, or its
                staged output could not be deleted. See ``reason``.
            InvalidTaskArgumentError: a connection of ``conn_ids`` does not exist.
        """
        with connections_here(conn_ids), self._no_root_no_job(job_id):
            return self.client(job_id).delete(
                job,
                unfinished=unfinished,
                abandoned=abandoned,
                discard_unreleased=discard_unreleased,
                keep_staged=keep_staged,
                persisted=persisted,
            )

    @contextmanager
    def _no_root_no_job(self, job_id: str) -> Iterator[None]:
        try:
            yield
        except NoRootError as error:
            raise NoSuchJobError(job_id=job_id, root=self.root_uri, known="none") from error

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the root can hold checkpoints (R17), and the message of the *Test* button.

        Airflow shows the message, one short line, for some seconds. The message has no secrets. It does not name the
        connection, because Airflow makes up an id for a test.
        """
        try:
            storage = self.storage()
            check_root_of_run(storage)  # refuses a root that a run would refuse
            storage.try_out()
            jobs = self.jobs()
        except NoRootError:
            return True, "Fit for checkpoints, and nothing is there yet." + self._where()
        except Exception as error:  # also from a file system, because the message names every problem
            return False, self._shortened(error)
        damaged = [state.job_id for state in jobs if state.damage]
        shown = f" Cannot be read: {', '.join(damaged[:_NAMED])}{', …' * (len(damaged) > _NAMED)}." if damaged else ""
        count = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
        return True, f"Fit for checkpoints, and holds {count}.{shown}" + self._where()

    def _where(self) -> str:
        """Return a warning for a local root, else "". Airflow tests in the API server, whose disk a worker lacks."""
        local = urlsplit(self.root_uri).scheme in ("", "file")
        return " Tried on this machine's disk; workers need the same folder." if local else ""

    def _shortened(self, error: Exception) -> str:
        if isinstance(error, NoCheckpointRootError):
            return "No root URI is given. Write s3://bucket/prefix or /shared/folder."
        data = error.data if isinstance(error, InvalidCkptConnectionError) else {}
        text = str(data.get("problem", error)) or type(error).__name__
        text = text if self._settings is None else self._settings.redact(text)
        text = re.sub(r"/?\.probe-[0-9a-f]+", "", one_line(" ".join(text.split())))
        return text if len(text) <= _TOAST else text[: _TOAST - 1].rstrip() + "…"
