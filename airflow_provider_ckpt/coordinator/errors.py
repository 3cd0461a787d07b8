"""Errors of checkpoints and of changed graphs."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError


class IllegalGraphChangeError(InvalidInputError):
    """Error for a graph that cannot be restored from the checkpoint.

    The rules: ``coordinator.checkpoints.vertex_finished_state``.
    """


class MixedFinishedStateError(IllegalGraphChangeError):
    """Error for a vertex that chains operators of different states.

    Data: vertex, first, first_state, other, other_state.
    """

    template = (
        "vertex {vertex} chains {first} ({first_state} in the checkpoint) with {other} ({other_state}): a chain "
        "is restored as one; give one of the two chain=False, or a new uid so that it starts empty"
    )


class FinishedAfterRunningError(IllegalGraphChangeError):
    """Error for a finished operator that reads from an unfinished one.

    Data: consumer, consumer_state, producer, producer_state, exchange.
    """

    template = (
        "operator {consumer} is {consumer_state} in the checkpoint, but {producer}, from which it reads "
        "({exchange}), is {producer_state}: what {producer} still produces would be lost; add "
        "{producer} downstream of finished operators only, or give {consumer} a new uid so that it runs again"
    )


class NonRestoredStateError(IllegalGraphChangeError):
    """Error for state of operators that the job no longer has.

    Data: operators (comma-separated uids).
    """

    template = (
        "the checkpoint has state of operators that the job no longer has: {operators}; keep their uids, "
        "or run with allow_non_restored_state to drop that state"
    )


class ReconfigurationRefusedError(InvalidInputError):
    """Error for a change that is impossible, or impossible now. The job continues unchanged.

    Data: why.
    """

    template = "this cannot be changed while the job runs: {why}"


class CutViolatedError(TerminalError):
    """Error for an acknowledged checkpoint that is no consistent cut.

    It is not completed, and nothing of it is released.

    Data: checkpoint, edge, consumer, read, producer, published.
    """

    template = (
        "checkpoint {checkpoint} is no consistent cut: {consumer} read up to position {read} of edge {edge}, "
        "but {producer} has its barrier at position {published}; this is a defect: keep the job's folder and "
        "report it; the job can be restored from the checkpoint before"
    )


class UnknownMessageError(TerminalError):
    template = (
        "a message of type {kind!r:.80} with {fields:.300} is not known to this version; "
        "the JobMaster and its tasks have to run the same version"
    )
