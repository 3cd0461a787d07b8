"""What a task fails with, whatever runs it."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SourceFilesGoneError(TerminalError):
    """Files of a bounded source's frozen list vanished before they were read: the source could never end."""

    template = (
        "{count} of the files that bounded source {uid!r} still has to read are gone, {path} among them. Put them "
        "back and resume the job, or run it under another job id to do without them."
    )
