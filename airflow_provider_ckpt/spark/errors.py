"""Errors of a driver outside of its queries: Spark settings, outputs, access to the root, and other drivers."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.job.errors import UnfitLogicError


class OutputTakenError(InvalidInputError):
    """A job that is new under its root, with a sink that holds releases of a job of that name.

    The root was moved or wiped, or another root was given. The sink would skip the first checkpoints of the new job as
    released already, so their rows would be lost.
    """

    template = (
        "Sink {sink} of job {job_id!r} holds output of a job of that name up to checkpoint {released}, and under "
        "the root {root} there is no such job. Resume the job under its original root, or start from scratch with "
        "another job id or an empty target (a FileSink keeps its records in the folder '_ckpt-…' next to the table)."
    )


class UnfitSettingError(InvalidInputError):
    """A Spark setting that the user must change or remove, because rows would be lost, or Python would not start."""

    template = "Spark setting {key}={value!r} is refused: {why}; remove the setting"


class SparkNotStartedError(TransientError):
    template = (
        "Spark could not be started: {cause}; the job has not begun. Read Spark's log before this line, and check "
        "its settings (spark.master, spark.driver.memory, spark.jars); `ckpt doctor` checks Java and the installation"
    )


class SparkLostError(TransientError):
    """An end of Spark's JVM. Later errors, even in user functions, say nothing about the job."""

    template = (
        "Spark's JVM ended while the job ran (killed, or out of memory: see its log, and spark.driver.memory); the job "
        "can be run again, and resumes after its released output; the error that followed: {cause}"
    )


class JobStateMovedError(TransientError):
    """A previous driver that changed the job too often while this driver prepared it."""

    template = (
        "job {job_id!r} changed {times} times while this driver was preparing to take it over; another driver is "
        "running the job: stop that driver first (`{stop}`), or try again"
    )


class JobFailedTerminallyError(InvalidInputError):
    template = (
        "job {job_id!r} failed terminally ({cause}); a retry would fail in the same way: fix the cause, then resume "
        "the job with --resume-failed (in Airflow: clear the task)"
    )


class ForgottenFileError(InvalidInputError):
    """A file that the user gives up (``--forget-file``), and that is not gone, or that no source waits for."""


class OverlappingFoldersError(InvalidInputError):
    """Folders of sources, sinks and the root that lie in each other. The user must separate them."""


class SparkStorageError(InvalidInputError):
    """A location that Spark cannot use as this process does. The user must give Spark the same access."""


class NoSuchSubtaskError(InvalidInputError):
    template = "job {job_id!r} has no subtask {subtask!r}; it has: {known}"


class WorkerDiffersError(InvalidInputError):
    """A worker, also one on standby, whose definition, settings or files differ from those of the job's plan."""

    template = (
        "{what} of job {job_id!r} differ from those that it was prepared with (deployment {deployment}): give the "
        "worker the same definition, parameters and settings. To run the job as it is now, stop it and start its "
        "master and workers again"
    )


class UnfitVersionError(InvalidInputError):
    """A version of the job that cannot replace the running version. Data: job (its reference), problem."""

    template = "{job} does not fit the running job: {problem}"


class UnfitAssignedLogicError(UnfitLogicError):
    """Assigned code that does not fit when the job is run again. Data: uid, reference, problem, command."""

    template = (
        f"{UnfitLogicError.template}. Restore the file as it was when {{uid!r}} was given it. Or assign the declared "
        "function while the job is not running: {command} ({uid}.logic={reference} for the current file)"
    )
