"""Errors of Spark's own files in a checkpoint folder."""

from __future__ import annotations

from airflow_provider_ckpt.errors import TerminalError


class SparkFolderLostError(TerminalError):
    """Damaged Spark files of a query. A resumed query would lose rows or never end. ``data``: uri, problem."""

    template = (
        "{uri} {problem}: Spark's files of the query are damaged, and a resumed query would lose rows. Nothing was "
        "released because of it, and nothing of the folder was deleted: put it back from a backup and resume with "
        "--resume-failed, or run the job under another id, from its input"
    )


class SparkStateLostError(SparkFolderLostError):
    """Damaged state of a query. An older checkpoint may have undamaged state. ``data``: uri, problem."""

    template = (
        "{uri} {problem}: the state of the query is damaged, and it cannot resume without. Nothing was released "
        "because of it, and nothing of the folder was deleted: put it back from a backup and resume with "
        "--resume-failed. If batches came after the last completed checkpoint, its state may be whole: "
        "--restore chk-<n> --resume-failed goes back to it, and is refused if it is not. Else run the job under "
        "another id, from its input"
    )


class DamagedOffsetError(TerminalError):
    """An offset that cannot be read. ``data``: offset (its beginning), problem."""

    template = (
        "the offset {offset!r} of a source cannot be read ({problem}): the subtask's log, or a Spark file of the "
        "query, was changed; put the job's folder back from a backup"
    )
