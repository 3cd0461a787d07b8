"""Errors of the JobMaster."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError, TerminalError, TransientError
from airflow_provider_ckpt.partitions.errors import PartitionFilesDamagedError


class TaskFencedError(OvertakenError):
    template = "{subtask} was taken over by a later attempt, this driver stops: {cause}"


class AbandonedError(TransientError):
    """The process of a JobMaster goes, and the job goes on: its next JobMaster comes to it as after a crash."""

    template = "the JobMaster of epoch {epoch} leaves job {job_id!r}, as its process goes: the next one goes on with it"


class SubtaskLogLostError(TerminalError):
    """Entries that a completed checkpoint covers are gone: going on would read and release their rows once more."""

    template = (
        "{log} ends before entry {next}, and checkpoint {checkpoint} covers it up to entry {covered}: entries were "
        "removed; bring them back from a backup, or run the job under another id"
    )


class SubtaskLogCutError(SubtaskLogLostError):
    """Entries that a consumer has read are gone: it would wait for the next ones, or pass over as many."""

    template = (
        "{log} ends before entry {next}, and {consumer} has read it up to entry {read}: entries were removed; bring "
        "them back from a backup, or run the job under another id"
    )


class SubtaskLogReopenedError(SubtaskLogLostError):
    template = (
        "{log} has no end, and the journal has {subtask} at its end, or finished: entries were removed; bring them "
        "back from a backup, or run the job under another id"
    )


class GateAnswerError(TerminalError):
    """``data``: job, sink, checkpoint, answer."""

    template = (
        "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and said {answer!r}: it has "
        "to say True (release it) or False (not yet)"
    )


class GateFailedError(TransientError):
    """``data``: job, sink, checkpoint, cause."""

    template = (
        "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and failed: {cause}; nothing "
        "is released there until it answers"
    )


class ReleaseHeldError(TransientError):
    """``data``: job, sinks, gates, checkpoint. ``gates``: whose they are; a closed one holds all of its
    transaction."""

    template = (
        "what job {job!r} has completed up to checkpoint {checkpoint} is not released in {sinks}: the gates of {gates} "
        "are closed. The rows stay staged; release again when the gates let them pass"
    )


class JobHasDriverError(InvalidInputError):
    """``data``: job_id, status, driver, stop (a command)."""

    template = (
        "job {job_id!r} is {status}, and its driver {driver}: a driver releases by itself, and would be overtaken. "
        "Stop the job (`{stop}`), or wait until the driver has left. If you know that it is gone, on a host that "
        "cannot be seen from here, add --driver-is-gone (in Python driver_is_gone=True)"
    )


class JobRunsError(InvalidInputError):
    """Another driver of the job lives. ``data``: job_id, status, driver, stop (a command), wait (a sentence or "")."""

    template = (
        "job {job_id!r} is {status}, and has a driver: {driver}. Stop the job first (`{stop}`), or take "
        "it from that driver, which then ends (--take-over){wait}"
    )


class JobHasWorkersError(JobHasDriverError):
    """Workers go on without a JobMaster, and whoever claims the job without their deployment ends it for them (W4).
    ``data``: job_id, status, deployment (the epoch in which it was prepared), master (a command)."""

    template = (
        "job {job_id!r} is {status}, and was prepared for workers in epoch {deployment}: those that live would be "
        "overtaken, and end. Begin `{master}` (in Airflow: the task that coordinates): it releases first, and goes "
        "on with them. If they are gone, or may end, add --driver-is-gone (in Python driver_is_gone=True)"
    )


class JobStillRunsError(InvalidInputError):
    """``data``: job_id, status, driver, stop (a command)."""

    template = (
        "job {job_id!r} is {status}, and {driver}. Ask the driver for the change (without --next-run), or stop the job "
        "first (`{stop}`). If you know that nobody runs it any more, add --driver-is-gone (in Python "
        "driver_is_gone=True)"
    )


class NotForNextRunError(InvalidInputError):
    """``data``: job_id, why."""

    template = "the next run of job {job_id!r} cannot be given that: {why}"


class JobNotOverError(InvalidInputError):
    """A job that is not over is not deleted. ``data``: job_id, status, why, remedy."""

    template = "job {job_id!r} is {status} and is not deleted: {why}. {remedy}"


class PersistedResultsError(InvalidInputError):
    """``data``: job_id, operators."""

    template = (
        "job {job_id!r} is not deleted: the results of {operators} are kept for other jobs (persist=True), and would "
        "go with it. If nobody reads them any more, add --persisted (in Python persisted=True)"
    )


class NoSuchResultError(InvalidInputError):
    """``data``: job_id, operator, status, known."""

    template = "job {job_id!r} ({status}) keeps no result of {operator!r}; its operators with persist=True are: {known}"


class ResultNotPersistedError(TransientError):
    """``data``: job_id, operator, status."""

    template = (
        "the result of {operator!r} is not whole yet: job {job_id!r} is {status}. Read it when the job has FINISHED, "
        "behind its task say"
    )


class ResultDamagedError(PartitionFilesDamagedError):
    """``data``: job_id, operator, uri, size, found."""

    template = (
        "{uri} was published with {size} bytes and {found}: the result of {operator!r} of job {job_id!r} is not whole "
        "any more. Put it back as it was, or run that job under another id and read the result of that one"
    )


class UnreleasedOutputError(InvalidInputError):
    """``data``: job_id, status, completed and released (the last checkpoints that are), release (a command)."""

    template = (
        "job {job_id!r} is {status} and is not deleted: it has completed checkpoint {completed}, and released "
        "{released}. What lies between would be lost: release it first (`{release}`, JobClient.release). To discard "
        "it, add --discard-unreleased (in Python discard_unreleased=True)"
    )


class StagedOutputLeftError(TransientError):
    """The deletion has begun, nobody runs the job any more, and it is not complete. ``data``: job_id, sink, cause,
    delete (a command)."""

    template = (
        "what sink {sink} of job {job_id!r} has staged could not be deleted: {cause}. Delete the job again to go on "
        "(`{delete}`), with its definition if the sink has storage options of its own; if the target is gone for good, "
        "leave there what is there: add --keep-staged (in Python keep_staged=True)"
    )


class SinksMissingError(InvalidInputError):
    template = (
        "job {job_id!r} ran with the sinks {missing}, which the definition given has not: what was staged for them "
        "could not be released; give the definition that the job ran with"
    )


class RestoreRefusedError(InvalidInputError):
    template = "cannot restore job {job_id!r} from {restore!r}: {reason}"


class FrozenSplitsLostError(TerminalError):
    template = (
        "{uri} {problem}. It lists the splits of a source, and which of them were read is known by their places in it: "
        "put it back from a backup, or run the job under another id"
    )
