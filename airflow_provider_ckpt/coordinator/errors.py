"""Errors of checkpoints, graph changes, reconfigurations and messages."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError


class IllegalGraphChangeError(InvalidInputError):
    """Error for a changed job that cannot resume. Its author must undo the change, or allow the loss of state."""


class ReconfigurationRefusedError(InvalidInputError):
    """Error for a refused change, even if it is possible later. The job continues unchanged. ``data["why"]`` is why."""

    template = "this cannot be changed while the job runs: {why}"


class CutViolatedError(TerminalError):
    """Error for an acknowledged checkpoint that is no consistent cut. The checkpoint is never released."""

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
