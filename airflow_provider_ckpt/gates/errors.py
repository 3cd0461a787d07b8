"""Errors of gates."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TransientError


class GateUndecidedError(TransientError):
    """A gate that gives no answer. Nothing is released until it does."""
