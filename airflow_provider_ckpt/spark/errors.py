"""What a driver fails with around its queries: settings, outputs, the way to the root, and when another was first."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.job.errors import UnfitLogicError


class OutputTakenError(InvalidInputError):
    """The job is new under its root, and its sink holds releases: the root was moved, wiped or mistaken. The sink
    would take the new job's first checkpoints for released already, and leave their rows out."""

    template = (
        "Sink {sink} of job {job_id!r} holds what a job of that name released up to checkpoint {released}, and under "
        "the root {root} there is no such job yet. Go on with the root it ran with, or begin anew with another job "
        "id or an empty target (a FileSink keeps its records in the folder '_ckpt-…' beside the table)."
    )


class UnsupportedConfError(InvalidInputError):
    template = (
        "Spark setting {key}={value!r} cannot be honoured: a finished source can only be dropped with "
        "{key}={needed}; remove the setting"
    )


class UnsupportedStateStoreError(InvalidInputError):
    template = (
        "Spark setting {key}={value!r} cannot be honoured: a job that goes back to a checkpoint would count rows of "
        "the time after it, or lose some; set {key}={needed}, or remove the setting"
    )


class PythonMissingError(InvalidInputError):
    template = (
        "Spark setting spark.pyspark.python={value!r} names no program on this host, where the workers of a local "
        "master run. Give the path of a Python that has the packages of the job, or remove the setting"
    )


class DriverPythonError(InvalidInputError):
    template = (
        "Spark setting spark.pyspark.driver.python={value!r} cannot be honoured: this process is the driver, and runs "
        "{running}. Run ckpt with that Python, or remove the setting"
    )


class SparkNotStartedError(TransientError):
    template = (
        "Spark could not be started: {cause}; nothing of the job was begun. Look at what Spark wrote before this line, "
        "and at the settings given for it (spark.master, spark.driver.memory, spark.jars); `ckpt doctor` checks Java "
        "and the installation"
    )


class SparkGoneError(TransientError):
    """Spark's JVM ended while the driver was getting ready. What failed on account of it says nothing of the job."""

    template = (
        "Spark's JVM ended before the job was planned (killed, or out of memory: see what it logged, and "
        "spark.driver.memory); nothing was started, and the job can be run again; what failed then: {cause}"
    )


class JobStateMovedError(TransientError):
    """The driver before went on while this one was getting ready, again and again."""

    template = (
        "job {job_id!r} changed {times} times while this driver was getting ready to take it over; its driver is at "
        "work: stop it first (`{stop}`), or try again"
    )


class JobFailedTerminallyError(InvalidInputError):
    template = (
        "job {job_id!r} failed terminally ({cause}); trying again gives the same answer: mend the cause, then "
        "go on with --resume-failed (in Airflow: clear the task)"
    )


class ForgottenFileThereError(InvalidInputError):
    """A file that was to be given up is there. Data: file."""

    template = (
        "--forget-file {file}: the file is there, and the job reads it. Only files that are gone can be given up; "
        "leave the option out"
    )


class ForgottenFileUnknownError(InvalidInputError):
    """A file was to be given up that no source waits for. Data: file, awaited."""

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
        "the folder of sink {sink!r} ({folder}) lies among what job {job_id!r} keeps under the root {root}, and would "
        "go with it; give the sink a folder of its own"
    )


class OutputReadError(InvalidInputError):
    template = (
        "source {source!r} reads {path}, where sink {sink!r} writes ({folder}): the job would read its own output; "
        "give the sink a folder outside of what is read"
    )


class RootReadError(InvalidInputError):
    template = (
        "source {source!r} reads {path}, where the root {root} lies or what it keeps: the job would read its own "
        "state. Give the root a folder outside of what is read"
    )


class LinkLoopError(InvalidInputError):
    """Data: source, path."""

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
    """A worker that would take a subtask from the one that runs it since a rescale."""

    template = (
        "{subtask!r} of job {job_id!r} has come by a rescale, and runs beside {host!r}: whoever is asked for that one "
        "runs both. Ask for {host!r}; to run each by itself, declare the parallelism in the job, and begin it again"
    )


class OtherPlanError(InvalidInputError):
    """A worker that would run something else than its job was prepared for."""

    template = (
        "{what} of job {job_id!r} are not what it was prepared with (deployment {deployment}): a worker has to be "
        "given the definition, the parameters and the settings of then. To run the job as it is now, stop it and start "
        "its master and workers again"
    )


class OtherCodeError(InvalidInputError):
    """A worker, or one that stands by, has another version of the job's file than whoever prepared the job."""

    template = (
        "{file}, of this worker, is not what job {job_id!r} was prepared with (deployment {deployment}). What differs, "
        "but for comments and layout: {differs}. Its subtasks would go on with other code than the rest of the job: "
        "give this worker the file of then, and what it imports. To run the job as it is now, stop it and start its "
        "master and workers again"
    )


class OtherLogicError(InvalidInputError):
    """The same of a function that an operator was given while the job ran."""

    template = (
        "{file}, of this worker, is not what {uid!r} of job {job_id!r} was given while the job ran ({problem}): give "
        "this worker the file of then, and what it imports, or stop the job and start its master and workers "
        "again, which use the current file"
    )


class UnfitVersionError(InvalidInputError):
    """``data``: job (its reference), problem."""

    template = "{job} does not fit what runs: {problem}"


class UnfitAssignedLogicError(UnfitLogicError):
    """The same, when the job is run again. ``data``: uid, reference, problem, command."""

    template = (
        f"{UnfitLogicError.template}. Put it back as it was when {{uid!r}} was given it, or give it another one, or "
        "that which the job declares, while nobody runs the job: {command} "
        "({uid}.logic={reference} for what is there now)"
    )
