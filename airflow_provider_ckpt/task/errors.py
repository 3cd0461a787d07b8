"""Errors of tasks of any kind."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SourceFilesGoneError(TerminalError):
    """Files of a frozen list that vanished before they were read. The bounded source could never end without them."""

    template = (
        "files that bounded source {uid!r} still has to read are gone: {count} in all, {path} among them. Put them "
        "back and run the job with --resume-failed. To do without a file, add --forget-file {path} (in Airflow "
        "forget_files); the job shows which files were given up."
    )
