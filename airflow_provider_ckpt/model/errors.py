"""Errors of the JSON form of values."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class UnknownFormError(TerminalError):
    """Error for JSON that this release cannot read, because a later release wrote it or because it is damaged."""

    template = "{what}; upgrade airflow_provider_ckpt to the release that wrote it"


class DamagedFormError(UnknownFormError):
    """Error for JSON that no release writes, because a field is missing or a value has the wrong type."""

    template = (
        "{what}; bring the file back from a backup if it was changed, or upgrade airflow_provider_ckpt to the release "
        "that wrote it"
    )
