"""Errors of the JSON form of values."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class UnknownFormError(TerminalError):
    """JSON of a later release, or of no release."""

    template = "{what}; upgrade airflow_provider_ckpt to the release that wrote it"


class DamagedFormError(UnknownFormError):
    """JSON with a missing field or a value of another type, which no release has written."""

    template = (
        "{what}; bring the file back from a backup if it was changed, or upgrade airflow_provider_ckpt to the release "
        "that wrote it"
    )
