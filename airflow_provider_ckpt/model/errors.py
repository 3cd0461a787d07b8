"""Errors of the JSON form of values."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class UnknownFormError(TerminalError):
    """JSON of a later release, or of none."""

    template = "{what}; upgrade airflow_provider_ckpt to the release that wrote it"


class DamagedFormError(UnknownFormError):
    """A field is missing, or has a value of another type: no release has written it so."""

    template = (
        "{what}; bring the file back from a backup if it was changed, or upgrade airflow_provider_ckpt to the release "
        "that wrote it"
    )
