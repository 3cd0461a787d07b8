"""Errors of the JSON form of values."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class UnknownFormError(TerminalError):
    """JSON of a later release, or of none."""

    template = "{what}; upgrade airflow_provider_ckpt to the release that wrote it"
