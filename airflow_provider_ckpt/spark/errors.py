"""Errors of a driver or worker that no query raises: Spark settings, folders, access to storages, other code."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.job.errors import UnfitLogicError


class UnfitSettingError(InvalidInputError):
    """A Spark setting with which rows would be lost, or Spark could not start Python. The user must remove it."""

    template = "Spark setting {key}={value!r} is refused: {why}; remove the setting"


class SparkLostError(TransientError):
    """The end of Spark's JVM. It causes later errors, even in user functions, that are no mistakes of the job."""

    template = (
        "Spark's JVM ended while the job ran (killed, or out of memory: see its log, and spark.driver.memory); the job "
        "can be run again, and resumes after its released output; the error that followed: {cause}"
    )


class ForgottenFileError(InvalidInputError):
    """A file that the user wants to abandon (``--forget-file``), but that exists, or that no source has to read."""


class OverlappingFoldersError(InvalidInputError):
    """A folder of a source, a sink or the root that lies in another such folder. The user must separate them."""


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
    """An assigned function that a later run of the job cannot use. Data: uid, reference, problem, command."""

    template = (
        f"{UnfitLogicError.template}. Restore the file as it was when {{uid!r}} was given it. Or assign the declared "
        "function while the job is not running: {command} ({uid}.logic={reference} for the current file)"
    )
