"""Errors of gates."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TransientError


class GateUndecidedError(TransientError):
    """A gate does not answer, or its answer is unclear. Nothing is released until the gate permits it."""
