"""What a task fails with, whatever runs it."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SourceFilesGoneError(TerminalError):
    """Files of a bounded source's frozen list vanished before they were read: the source could never end."""

    template = (
        "files that bounded source {uid!r} still has to read are gone: {count} in all, {path} among them. Put them "
        "back and run the job with --resume-failed. To do without a file, add --forget-file {path} (in Airflow "
        "forget_files); the job shows which files were given up."
    )
