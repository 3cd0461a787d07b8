"""Jobs and checkpoints under a checkpoint root, for Dag authors and for the other Airflow parts."""

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
from airflow_provider_ckpt.hooks.connection_settings import settings
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
    from airflow_provider_ckpt.client.job_request import JobRequest
    from airflow_provider_ckpt.client.reconfiguration import Reconfiguration
    from airflow_provider_ckpt.job.job import Job
    from airflow_provider_ckpt.jobmaster.deletion import DeletedJob
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.model.checkpoint_view import CheckpointView

_TOAST = 200
"""Characters that a person reads before the message goes away."""
_NAMED = 3
"""Damaged jobs that the message of the *Test* button names."""


class CheckpointHook(BaseHook):
    """Reads a checkpoint root; of all methods only ``stop``, ``drain``, ``rescale``, ``reconfigure``, ``delete`` and
    ``test_connection`` write.

    :param ckpt_conn_id: connection of type ``ckpt``: host = root URI, extra ``storage_options`` = a JSON
        object for fsspec, login and password = key and secret of S3.
    :param root: root URI, goes before the connection's. With it the default connection need not exist.
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
        """Root and storage options; one connection lookup for the hook's lifetime, secrets masked in logs.

        Raises NoCheckpointRootError, InvalidCkptConnectionError, and Airflow's AirflowNotFoundException
        for a connection that was named and does not exist.
        """
        if self._settings is None:
            try:
                connection = self.get_connection(self.ckpt_conn_id) if self.ckpt_conn_id else None
            except AirflowNotFoundException:
                self._raise_unless_default()
                connection = None
            with refused_as(self._bad_extra):
                extra = connection.extra_dejson if connection else {}
            self._settings = settings(self.ckpt_conn_id, connection, extra, self.root)
            for secret in self._settings.secrets():
                mask_secret(secret)
        return self._settings

    async def asettings(self) -> Location:
        """As :meth:`settings`, for triggers: afterwards every other method may be called in a thread."""
        if self._settings is None:
            try:
                connection = await self.aget_connection(self.ckpt_conn_id) if self.ckpt_conn_id else None
            except AirflowNotFoundException:
                self._raise_unless_default()
                connection = None
            with refused_as(self._bad_extra):
                extra = await connection.aextra_dejson() if connection else {}
            self._settings = settings(self.ckpt_conn_id, connection, extra, self.root)
            for secret in self._settings.secrets():
                await amask_secret(secret)
        return self._settings

    def _bad_extra(self, _: str) -> InvalidCkptConnectionError:
        return InvalidCkptConnectionError(conn_id=self.ckpt_conn_id, problem="its extra is not a JSON object")

    def _raise_unless_default(self) -> None:
        """In an ``except`` block: a connection somebody named must exist, the default one need not."""
        if self.ckpt_conn_id != self.default_conn_name:
            raise

    def get_conn(self) -> Storage:
        return self.storage()

    def storage(self) -> Storage:
        """The storage of the root. Nothing is read or written yet."""
        if self._storage is None:
            self._storage = open_storage(self.settings())
        return self._storage

    def jobs(self) -> list[JobState]:
        """Every job under the root that is not DELETED. Raises NoRootError."""
        from airflow_provider_ckpt.client.job_client import list_jobs

        return list_jobs(self.storage())

    def collect_garbage(self, job_id: str | None = None, *, delete: bool = False) -> GarbageReport:
        """What nothing needs any more of every job under the root, or of one; with ``delete`` it is deleted. As the
        function :func:`~..client.garbage_collection.collect_garbage`. Raises NoRootError, NoSuchJobError."""
        from airflow_provider_ckpt.client.garbage_collection import collect_garbage

        return collect_garbage(self.settings(), job_id, delete=delete)

    def client(self, job_id: str) -> JobClient:
        """The job from outside: to look at it again and again, to wait for it, to ask it to end and for the answer."""
        from airflow_provider_ckpt.client.job_client import JobClient

        return JobClient(self.settings(), job_id)

    def job(self, job_id: str) -> JobState:
        """What the journal says about the job (``damage``: what is wrong with the journal).

        Raises NoSuchJobError, also when the root is not one yet.
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).state()

    def checkpoints(self, job_id: str) -> list[CheckpointView]:
        """What became of those that the journal remembers (the last 100), oldest first. Raises NoSuchJobError."""
        return self.job(job_id).checkpoint_views()

    def stop(self, job_id: str) -> str:
        """Ask the job's driver to stop: savepoint, release, exit; its next run goes on from there.

        Returns the name under which the journal answers (``JobState.answered``). Does not wait.
        Raises NoSuchJobError, JobNotRunningError.
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).stop().name

    def drain(self, job_id: str, *, at_once: bool = False, discard_timers: bool = False) -> str:
        """Ask the job's driver to drain: read what is there, take the final checkpoint, FINISHED.

        ``at_once``: live sources end where they stand; what waits in them is not read. ``discard_timers``: also if
        state waits for timers of processing time, which a drain discards; else it raises TimersWaitError.
        """
        with self._no_root_no_job(job_id):
            return self.client(job_id).drain(at_once=at_once, discard_timers=discard_timers).name

    def rescale(self, job_id: str, uid: str, parallelism: int) -> str:
        """Ask the job's driver to have source ``uid``, one with splits, read by so many subtasks, while the job runs.

        Returns the request's name, as :meth:`stop`. Raises NoSuchJobError, JobNotRunningError, NotRescalableError."""
        with self._no_root_no_job(job_id):
            return self.client(job_id).rescale(uid, parallelism).name

    @contextmanager
    def reconfigure(self, job_id: str, *, timeout: float | None = 600.0) -> Iterator[Reconfiguration]:
        """Change queries of a running job: what the object is told in the block is asked for, as one, when that ends.
        ::

            with hook.reconfigure("orders") as change:
                change.assign_workload("daily_revenue", state_partitions=16)

        ``timeout``: seconds to wait until they run so; None: not at all. Raises NoSuchJobError, JobNotRunningError,
        NotReconfigurableError; ReconfigurationFailedError if the job goes on as it was, NotReconfiguredError if it took
        longer."""
        from airflow_provider_ckpt.client.reconfiguration import Reconfiguration

        change = Reconfiguration()
        yield change
        with self._no_root_no_job(job_id):
            client = self.client(job_id)
            asked = client.reconfigure(change)
            if timeout is not None:
                self._await_change(client, asked, timeout)

    def upgrade(
        self,
        job_id: str,
        job: str | None = None,
        *,
        allow_non_restored_state: bool = False,
        timeout: float | None = 600.0,
    ) -> str:
        """Have a running job go on as another version of it, in the same driver: see :meth:`JobClient.upgrade`.

        ``timeout``: seconds to wait until it runs as that; None: not at all. Returns the request's name. Raises
        NoSuchJobError, JobNotRunningError, NotUpgradableError; ReconfigurationFailedError if the job goes on as it was,
        NotUpgradedError if it took longer."""
        with self._no_root_no_job(job_id):
            client = self.client(job_id)
            asked = client.upgrade(job, allow_non_restored_state=allow_non_restored_state)
            if timeout is not None:
                self._await_change(client, asked, timeout)
            return asked.name

    @staticmethod
    def _await_change(client: JobClient, asked: JobRequest, timeout: float) -> None:
        answer = client.answer(asked, timeout)
        if not answer.is_served:
            told = answer.outcome or f"its driver ended it {answer.state.status} and said nothing"
            raise ReconfigurationFailedError(job_id=client.job_id, outcome=told)

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
        """Delete what a job that is over has under the root, and what it has staged; never what it released. The
        arguments are those of :meth:`JobClient.delete`, and ``conn_ids``: Airflow connections that the sinks of ``job``
        use. Raises NoSuchJobError, JobNotOverError, UnreleasedOutputError, PersistedResultsError,
        StagedOutputLeftError, DriverConnectionMissingError."""
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
        """What the *Test* button shows, for some seconds: whether the root can hold checkpoints (R17), tried, not
        guessed. Short, on one line, without secrets and without the id, which Airflow makes up for a test."""
        try:
            storage = self.storage()
            check_root_of_run(storage)  # what a run would refuse is not fit
            storage.try_out()
            jobs = self.jobs()
        except NoRootError:
            return True, "Fit for checkpoints, and nothing is there yet." + self._where()
        except Exception as error:  # of a file system's driver, too: the button has to say what is wrong
            return False, self._shortened(error)
        damaged = [state.job_id for state in jobs if state.damage]
        shown = f" Cannot be read: {', '.join(damaged[:_NAMED])}{', …' * (len(damaged) > _NAMED)}." if damaged else ""
        count = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}"
        return True, f"Fit for checkpoints, and holds {count}.{shown}" + self._where()

    def _where(self) -> str:
        """Airflow tests in the API server: another disk than a worker's, unless it is shared."""
        local = urlsplit(self.root_uri).scheme in ("", "file")
        return " Tried on this machine's disk; workers need the same folder." if local else ""

    def _shortened(self, error: Exception) -> str:
        if isinstance(error, NoCheckpointRootError):
            return "No root URI is given. Write s3://bucket/prefix or /shared/folder."
        known = error.data if isinstance(error, InvalidCkptConnectionError) else {}
        text = str(known.get("problem", error)) or type(error).__name__
        text = text if self._settings is None else self._settings.redact(text)
        text = re.sub(r"/?\.probe-[0-9a-f]+", "", one_line(" ".join(text.split())))
        return text if len(text) <= _TOAST else text[: _TOAST - 1].rstrip() + "…"
