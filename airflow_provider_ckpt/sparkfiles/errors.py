"""Errors of Spark's own files in a checkpoint folder."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SparkFolderLostError(TerminalError):
    """What Spark keeps of a query is not whole: going on would leave rows out, or never end. Data: uri, problem."""

    template = (
        "{uri} {problem}: what Spark keeps of the query is damaged, and going on would lose rows. Nothing was "
        "released on account of it, and nothing of the folder was deleted: put it back from a backup and go on with "
        "--resume-failed, or run the job under another id, from its input"
    )
