"""Errors of a driver outside of its queries: Spark settings, outputs, access to the root, and other drivers."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.job.errors import UnfitLogicError


class UnfitSettingError(InvalidInputError):
    """A Spark setting with which rows would be lost, or Python would not start. The user must change or remove it."""

    template = "Spark setting {key}={value!r} is refused: {why}; remove the setting"


class SparkLostError(TransientError):
    """The end of Spark's JVM. Later errors, even in user functions, are no sign of a mistake in the job."""

    template = (
        "Spark's JVM ended while the job ran (killed, or out of memory: see its log, and spark.driver.memory); the job "
        "can be run again, and resumes after its released output; the error that followed: {cause}"
    )


class ForgottenFileError(InvalidInputError):
    """A file of ``--forget-file`` that still exists, or that no source has to read."""


class OverlappingFoldersError(InvalidInputError):
    """Folders of sources, sinks and the root that overlap. The user must separate them."""


class SparkStorageError(InvalidInputError):
    """A location that this process can use and Spark cannot. The user must give Spark the same access."""


class NoSuchSubtaskError(InvalidInputError):
    template = "job {job_id!r} has no subtask {subtask!r}; it has: {known}"


class WorkerDiffersError(InvalidInputError):
    """A worker or standby worker whose definition, settings or files differ from the job's plan."""

    template = (
        "{what} of job {job_id!r} differ from those that it was prepared with (deployment {deployment}): give the "
        "worker the same definition, parameters and settings. To run the job as it is now, stop it and start its "
        "master and workers again"
    )


class UnfitAssignedLogicError(UnfitLogicError):
    """Assigned code that does not fit at a later run of the job. Data: uid, reference, problem, command."""

    template = (
        f"{UnfitLogicError.template}. Restore the file as it was when {{uid!r}} was given it. Or assign the declared "
        "function while the job is not running: {command} ({uid}.logic={reference} for the current file)"
    )
