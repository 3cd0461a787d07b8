"""Errors of the JobMaster."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, OvertakenError, TerminalError


class TaskFencedError(OvertakenError):
    template = "{subtask} was taken over by a later attempt, this driver stops: {cause}"


class SubtaskLogLostError(TerminalError):
    """Entries that a completed checkpoint covers are gone: going on would read and release their rows once more."""

    template = (
        "{log} ends before entry {next}, and checkpoint {checkpoint} covers it up to entry {covered}: entries were "
        "removed; bring them back from a backup, or run the job under another id"
    )


class RestoreRefusedError(InvalidInputError):
    template = "cannot restore job {job_id!r} from {restore!r}: {reason}"
