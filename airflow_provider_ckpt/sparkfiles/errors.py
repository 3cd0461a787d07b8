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


class SparkStateLostError(SparkFolderLostError):
    """The same of the state of a stateful operator. The one that an older checkpoint covers may be whole."""

    template = (
        "{uri} {problem}: the state of the query is damaged, and it cannot go on without. Nothing was released on "
        "account of it, and nothing of the folder was deleted: put it back from a backup and go on with "
        "--resume-failed. If batches came after the last completed checkpoint, its state may be whole: "
        "--restore chk-<n> --resume-failed goes back to it, and is refused if it is not. Else run the job under "
        "another id, from its input"
    )


class DamagedOffsetError(TerminalError):
    """Data: offset (its beginning), problem."""

    template = (
        "the offset {offset!r} of a source cannot be read ({problem}): the subtask's log, or what Spark keeps of the "
        "query, was changed; put the job's folder back from a backup"
    )
