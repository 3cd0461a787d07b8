"""Errors of the JobMaster."""

from __future__ import annotations

from airflow_provider_ckpt.errors import (
    DeletionRefusal,
    DeletionRefusedError,
    InvalidInputError,
    OvertakenError,
    RequestFailedError,
    RequestFailure,
    TerminalError,
    TransientError,
)
from airflow_provider_ckpt.subtasklog.errors import PartitionFilesDamagedError


class TaskFencedError(OvertakenError):
    template = "{subtask} was taken over by a later attempt, this driver stops: {cause}"


class AbandonedError(TransientError):
    """The process of a JobMaster ends while the job keeps running. The next JobMaster takes over as after a crash."""

    template = "the JobMaster of epoch {epoch} leaves job {job_id!r} because its process ends: the next one resumes it"


class SubtaskLogLostError(TerminalError):
    """Log entries that a completed checkpoint covers are gone. A resumed job would read and release their rows once
    more."""

    template = (
        "{log} ends before entry {next}, and checkpoint {checkpoint} covers it up to entry {covered}: entries were "
        "removed; bring them back from a backup, or run the job under another id"
    )


class SubtaskLogCutError(SubtaskLogLostError):
    """Log entries that a consumer has read are gone. The consumer would wait for new entries, or skip as many as are
    gone."""

    template = (
        "{log} ends before entry {next}, and {consumer} has read it up to entry {read}: entries were removed; bring "
        "them back from a backup, or run the job under another id"
    )


class SubtaskLogReopenedError(SubtaskLogLostError):
    """A log has no end although the journal has its subtask at its end. Log entries are gone."""

    template = (
        "{log} has no end, and the journal has {subtask} at its end, or finished: entries were removed; bring them "
        "back from a backup, or run the job under another id"
    )


class GateAnswerError(TerminalError):
    """A gate returned something other than True or False. ``data``: job, sink, checkpoint, answer."""

    template = (
        "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and returned {answer!r}: it "
        "must return True (release it) or False (not yet)"
    )


class GateFailedError(TransientError):
    """A gate raised an error. ``data``: job, sink, checkpoint, cause."""

    template = (
        "the gate of sink {sink!r} of job {job!r} was asked about checkpoint {checkpoint} and failed: {cause}; nothing "
        "is released there until it answers"
    )


class ReleaseHeldError(TransientError):
    """A release is held back by closed gates. A closed gate holds back all sinks of its transaction.

    ``data``: job, sinks, gates (sinks with a closed gate), checkpoint.
    """

    template = (
        "what job {job!r} has completed up to checkpoint {checkpoint} is not released in {sinks}: the gates of {gates} "
        "are closed. The rows stay staged; release again when the gates let them pass"
    )


class JobHasDriverError(InvalidInputError):
    """A release from outside was refused because the job has a driver. ``data``: job_id, status, driver, stop (a
    command)."""

    template = (
        "job {job_id!r} is {status}, and its driver {driver}: a driver releases by itself, and would be overtaken. "
        "Stop the job (`{stop}`), or wait until the driver has left. If you know that it is gone, on a host that "
        "cannot be seen from here, add --driver-is-gone (in Python driver_is_gone=True)"
    )


class JobRunsError(InvalidInputError):
    """A run was refused because another driver of the job lives.

    ``data``: job_id, status, driver, stop (a command), wait (a sentence or "").
    """

    template = (
        "job {job_id!r} is {status}, and has a driver: {driver}. Stop the job first (`{stop}`), or take "
        "it from that driver, which then ends (--take-over){wait}"
    )


class JobHasWorkersError(JobHasDriverError):
    """A release from outside was refused because workers may still run the job without a JobMaster. A claim without
    their deployment would end the job for them (W4).

    ``data``: job_id, status, deployment (the epoch in which it was prepared), master (a command).
    """

    template = (
        "job {job_id!r} is {status}, and was prepared for workers in epoch {deployment}: those that live would be "
        "overtaken, and end. Start `{master}` (in Airflow: the task that coordinates): it releases first, and resumes "
        "with them. If they are gone, or may end, add --driver-is-gone (in Python driver_is_gone=True)"
    )


class JobStillRunsError(RequestFailedError, InvalidInputError):
    """A change for the next run was refused because the job still runs. ``data``: job_id, status, driver, stop (a
    command)."""

    reason = RequestFailure.STILL_RUNNING
    template = (
        "job {job_id!r} is {status}, and {driver}. Ask the driver for the change (without --next-run), or stop the job "
        "first (`{stop}`). If you know that no process runs it, add --driver-is-gone (in Python "
        "driver_is_gone=True)"
    )


class NotForNextRunError(RequestFailedError, InvalidInputError):
    """A change cannot be made for the next run of a job. ``data``: job_id, why."""

    reason = RequestFailure.NOT_FOR_NEXT_RUN
    template = "the next run of job {job_id!r} cannot have this change: {why}"


class JobNotOverError(DeletionRefusedError, InvalidInputError):
    """A deletion was refused because the job is not over. ``data``: job_id, status, why, remedy."""

    reason = DeletionRefusal.NOT_OVER
    template = "job {job_id!r} is {status} and is not deleted: {why}. {remedy}"


class PersistedResultsError(DeletionRefusedError, InvalidInputError):
    """A deletion was refused because the job keeps results for other jobs. ``data``: job_id, operators."""

    reason = DeletionRefusal.PERSISTED_RESULTS
    template = (
        "job {job_id!r} is not deleted: the results of {operators} are kept for other jobs (persist=True), and would "
        "be lost. If no job reads them any longer, add --persisted (in Python persisted=True)"
    )


class NoSuchResultError(InvalidInputError):
    """The job keeps no result of the requested operator. ``data``: job_id, operator, status, known."""

    template = "job {job_id!r} ({status}) keeps no result of {operator!r}; its operators with persist=True are: {known}"


class ResultNotPersistedError(TransientError):
    """A result was requested before the job had FINISHED. ``data``: job_id, operator, status."""

    template = (
        "the result of {operator!r} is not whole yet: job {job_id!r} is {status}. Read it when the job has FINISHED, "
        "for example after its task"
    )


class ResultDamagedError(PartitionFilesDamagedError):
    """A file of a persisted result is gone or has another size. ``data``: job_id, operator, uri, size, found."""

    template = (
        "{uri} was published with {size} bytes and {found}: the result of {operator!r} of job {job_id!r} is no longer "
        "whole. Put the file back as it was, or run that job under another id and read the result of the new job"
    )


class UnreleasedOutputError(DeletionRefusedError, InvalidInputError):
    """A deletion was refused because the job has completed output that is not released.

    ``data``: job_id, status, completed and released (the last checkpoints that are), release (a command).
    """

    reason = DeletionRefusal.UNRELEASED_OUTPUT
    template = (
        "job {job_id!r} is {status} and is not deleted: it has completed checkpoint {completed}, and released "
        "{released}. What lies between would be lost: release it first (`{release}`, JobClient.release). To discard "
        "it, add --discard-unreleased (in Python discard_unreleased=True)"
    )


class StagedOutputLeftError(DeletionRefusedError, TransientError):
    """A deletion has begun, but staged output could not be deleted. The job can no longer run.

    ``data``: job_id, sink, cause, delete (a command).
    """

    reason = DeletionRefusal.STAGED_OUTPUT_LEFT
    template = (
        "the staged output of sink {sink} of job {job_id!r} could not be deleted: {cause}. Delete the job again to "
        "complete it (`{delete}`), with its definition if the sink has storage options of its own. If the target is "
        "gone for good, leave its staged output: add --keep-staged (in Python keep_staged=True)"
    )


class SinksMissingError(InvalidInputError):
    template = (
        "job {job_id!r} ran with the sinks {missing}, which the given definition lacks: their staged output could not "
        "be released; give the definition that the job ran with"
    )


class RestoreRefusedError(InvalidInputError):
    template = "cannot restore job {job_id!r} from {restore!r}: {reason}"


class FrozenSplitsLostError(TerminalError):
    template = (
        "{uri} {problem}. It lists the splits of a source, and which of them were read is known by their places in it: "
        "put it back from a backup, or run the job under another id"
    )
