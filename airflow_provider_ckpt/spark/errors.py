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


class SparkGoneError(TransientError):
    """An end of Spark's JVM while the driver prepared the job. The errors that follow say nothing about the job."""

    template = (
        "Spark's JVM ended before the job was planned (killed, or out of memory: see its log, and "
        "spark.driver.memory); nothing was started, and the job can be run again; the error that followed: {cause}"
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


class ForgottenFileThereError(InvalidInputError):
    """A file that the user gives up although it exists. Data: file."""

    template = (
        "--forget-file {file}: the file exists, and the job reads it. Only files that are gone can be given up; "
        "leave the option out"
    )


class ForgottenFileUnknownError(InvalidInputError):
    """A file that the user gives up although no source waits for it. Data: file, awaited."""

    template = (
        "--forget-file {file}: no source of the job waits for this file. {awaited}. Give such a name, or leave the "
        "option out"
    )


class RootInOutputError(InvalidInputError):
    template = (
        "the root {root} lies in the folder of sink {sink!r} ({folder}), where readers would take it for data; give "
        "the root a folder of its own"
    )


class OutputAmongStateError(InvalidInputError):
    template = (
        "the folder of sink {sink!r} ({folder}) lies among the files that job {job_id!r} keeps under the root {root}, "
        "and would be deleted with them; give the sink a folder of its own"
    )


class OutputReadError(InvalidInputError):
    template = (
        "source {source!r} reads {path}, where sink {sink!r} writes ({folder}): the job would read its own output; "
        "give the sink a folder outside of the source's"
    )


class RootReadError(InvalidInputError):
    template = (
        "source {source!r} reads {path}, which overlaps with the root {root}: the job would read its own state. Give "
        "the root a folder outside of the source's"
    )


class LinkLoopError(InvalidInputError):
    """A link in a source's folder that leads back to a folder around it. Data: source, path."""

    template = (
        "source {source!r} reads {path}: the link leads back to a folder around it, so Spark would read its files "
        "again and again. Remove the link, or give the source a folder without it"
    )


class SparkFileSystemMissingError(InvalidInputError):
    template = "Spark cannot open {uri}: {reason}; give Spark {hint}"


class SparkDeniedError(InvalidInputError):
    template = (
        "Spark was refused at {uri}, which this process can read: {reason}; if credentials, endpoint or region are not "
        "in the storage options, give them to Spark, too (spark.hadoop.fs.s3a.…, or the environment of the driver)"
    )


class SparkReachesElsewhereError(InvalidInputError):
    template = (
        "Spark does not see {marker} at {spark_uri}, which this process sees at {uri}: the two talk to different "
        "stores; give Spark the same endpoint (the storage option endpoint_url, or spark.hadoop.fs.s3a.endpoint)"
    )


class BucketSettingsError(InvalidInputError):
    template = (
        "two locations in {uri} have storage options that differ ({names}), and Spark knows one set for a bucket; "
        "give both the same, or use two buckets"
    )


class NoSuchSubtaskError(InvalidInputError):
    template = "job {job_id!r} has no subtask {subtask!r}; it has: {known}"


class SubtaskRunsBesideError(InvalidInputError):
    """A request for a subtask that a rescale has added, and that runs in the worker of its host subtask."""

    template = (
        "{subtask!r} of job {job_id!r} was added by a rescale, and the worker that runs {host!r} runs it, too. Ask "
        "for {host!r}; to run each by itself, declare the parallelism in the job, and start the job again"
    )


class OtherPlanError(InvalidInputError):
    """A worker whose definition, parameters or settings differ from those that the job was prepared with."""

    template = (
        "{what} of job {job_id!r} differ from those that it was prepared with (deployment {deployment}): give the "
        "worker the same definition, parameters and settings. To run the job as it is now, stop it and start its "
        "master and workers again"
    )


class OtherCodeError(InvalidInputError):
    """A worker, also one on standby, whose job file differs from the file that the job was prepared with."""

    template = (
        "{file}, of this worker, differs from the file that job {job_id!r} was prepared with (deployment "
        "{deployment}), apart from comments and layout, in: {differs}. Its subtasks would run other code than the rest "
        "of the job: give this worker the original file, and the modules that it imports. To run the job as it is now, "
        "stop it and start its master and workers again"
    )


class OtherLogicError(InvalidInputError):
    """A worker whose file of an assigned function differs from the file at the time of the assignment."""

    template = (
        "{file}, of this worker, differs from the file that {uid!r} of job {job_id!r} was given while the job ran "
        "({problem}): give this worker the original file, and the modules that it imports, or stop the job and start "
        "its master and workers again, which use the current file"
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
