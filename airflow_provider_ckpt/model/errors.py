"""Errors of the JSON form of values."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class UnknownFormError(TerminalError):
    """Error for JSON that this release cannot read, because another release wrote it or none did."""

    template = "{what}; upgrade airflow_provider_ckpt to the release that wrote it"


class DamagedFormError(UnknownFormError):
    """Error for JSON that no release has written, with a missing field or a value of another type."""

    template = (
        "{what}; bring the file back from a backup if it was changed, or upgrade airflow_provider_ckpt to the release "
        "that wrote it"
    )
