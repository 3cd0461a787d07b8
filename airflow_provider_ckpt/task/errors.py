"""Errors of tasks of any kind."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SourceFilesGoneError(TerminalError):
    """Error if files of a bounded source's frozen list are gone before they were read. The source could never end."""

    template = (
        "files that bounded source {uid!r} still has to read are gone: {count} in all, {path} among them. Put them "
        "back and run the job with --resume-failed. To do without a file, add --forget-file {path} (in Airflow "
        "forget_files); the job shows which files were given up."
    )
