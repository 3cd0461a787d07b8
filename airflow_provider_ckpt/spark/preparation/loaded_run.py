"""The first stage of a run: load the job, check it, and open its root. It writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ckpt.job.errors import JobImportError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.code import code_of
from airflow_provider_ckpt.job.loading.loading import LoadedJob, load
from airflow_provider_ckpt.job.loading.module_sources import own_modules
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.jobmaster.recovery.owned_journal import open_journal
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.plan.logic import ship_functions
from airflow_provider_ckpt.spark.preparation.own_output import refuse_root_in_output
from airflow_provider_ckpt.status.status_reporter import OnStatus, StatusReporter
from airflow_provider_ckpt.storage.credentials import wait_for_credentials
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import check_root_of_run, read_root
from airflow_provider_ckpt.storage.storage import Storage


@dataclass(frozen=True)
class RunRequest:
    """A user's request to run a job, and the receiver of its status lines."""

    options: RunOptions
    location: Location
    on_status: OnStatus

    def reporter(self, application: str | None = None) -> StatusReporter:
        """Return a reporter of status lines. ``application``: id of Spark's application; None if Spark does not run."""
        return StatusReporter(self.on_status, self.options.job_id, application, self.location.for_display())


@dataclass(frozen=True)
class LoadedRun:
    """A run whose job is loaded and checked, and whose root is open.

    Attributes:
        job: the job as its file declares it.
        journal: the job's journal, opened for reading, before a claim.
        drops_operators: True if this version of the job may lack operators of the previous version (R21).
        forget: unloads the modules of this version. Call it when the version is no longer used.
    """

    request: RunRequest
    job: Job
    storage: Storage
    journal: Journal
    drops_operators: bool = False
    forget: Callable[[], None] = lambda: None

    @property
    def options(self) -> RunOptions:
        return self.request.options

    @property
    def location(self) -> Location:
        return self.request.location

    @property
    def allows_non_restored_state(self) -> bool:
        return self.options.allow_non_restored_state or self.drops_operators

    def with_options(self, **changed: Any) -> LoadedRun:
        return replace(self, request=replace(self.request, options=replace(self.options, **changed)))

    def as_later_run(self) -> LoadedRun:
        """Return a copy for another run in the same driver, which neither restores nor drops operators again."""
        journal = open_journal(self.storage, self.options)
        return replace(self.with_options(restore="latest"), journal=journal, drops_operators=False)


def load_run(request: RunRequest) -> LoadedRun:
    """Load the job, check it, and open its root.

    Raises the errors of loading a job's file and of :meth:`Job.validate`, InvalidJobIdError, OverlappingFoldersError,
    RootRefusedError, ForeignRootError, NewerFormatError, the errors of :func:`check_root_of_run`, and storage errors.
    """
    options = request.options
    wait_for_credentials(options.storage_timeout)
    loaded = load_with_spark(options.job, options.job_id, options.conf, options.params)
    job = loaded.job
    job.code = code_of(loaded, options.job)
    job.own_modules = own_modules(loaded, options.job)
    ship_functions(loaded)
    job.validate()
    job.runtime_mode(options.mode)
    check_job_id(options.job_id)
    storage = open_storage(request.location)
    check_root_of_run(storage)
    with suppress(NoRootError):  # a new root has an empty journal
        read_root(storage)
    refuse_root_in_output(job, storage, request.location)
    return LoadedRun(request, job, storage, open_journal(storage, options))


def load_with_spark(
    reference: str, name: str, conf: Mapping[str, str], params: Mapping[str, str] | None = None
) -> LoadedJob:
    """Load the job's file. If its import fails only because Spark does not run, start Spark and load the file again.

    Usually Spark starts later, so that a wrong reference is refused at once. A file needs Spark if it declares a UDF at
    module level whose return type is a text.
    """
    try:
        return load(reference, params)
    except JobImportError as error:
        if "SESSION_OR_CONTEXT_NOT_EXISTS" not in str(error.__cause__):
            raise
    build_session(name, conf)
    return load(reference, params)
