"""Checks of the lost files that the user abandons (``forget_files``), although a source still has to read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.spark.errors import ForgottenFileError
from airflow_provider_ckpt.spark.query.sources.frozen_end import read_end
from airflow_provider_ckpt.spark.query.sources.frozen_files import FrozenFiles
from airflow_provider_ckpt.sparkfiles.attempt_folders import AttemptFolders
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset, shown_path, taken_after
from airflow_provider_ckpt.storage.layout import subtask_path
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from airflow_provider_ckpt.task.read_files import key_of

_NAMED = 5


@dataclass(frozen=True)
class SourceFiles:
    """The files of a job's sources: files on frozen lists (listed), and files in Spark's logs of sources (planned)."""

    storage: Storage
    state: JobState
    graph: JobGraph
    logs: Mapping[SubtaskId, SubtaskLog]

    def known(self) -> dict[str, str]:
        """Return normal path -> unescaped URI of all listed and planned files. A restore may read any of them again."""
        uris: dict[str, str] = {}
        for subtask, uid in self._sources():
            uris |= {key_of(uri): uri for uri in (*self._listed(uid), *self._planned(subtask, uid, -1))}
        return uris

    def unread(self) -> list[str]:
        """Return the URIs of listed and planned files that no published batch has read."""
        uris: dict[str, str] = {}
        for subtask, uid in self._sources():
            offset = self._offset(subtask, uid)
            planned = self._planned(subtask, uid, -1)
            later = self._planned(subtask, uid, offset)
            read = {key_of(uri) for uri in planned} - {key_of(uri) for uri in later}
            uris |= {key_of(uri): uri for uri in (*self._listed(uid), *later) if key_of(uri) not in read}
        return [uri for _, uri in sorted(uris.items())]

    def _sources(self) -> Iterator[tuple[SubtaskId, str]]:
        for subtask in self.logs:
            yield from ((subtask, uid) for uid in self.graph.vertex(subtask.vertex).sources)

    def _listed(self, uid: str) -> tuple[str, ...]:
        frozen = self.state.frozen.get(uid)
        if frozen is None or frozen.path is None:
            return ()
        end = read_end(self.storage, f"{self.state.job_id}/{frozen.path}")
        return end.files if isinstance(end, FrozenFiles) else ()

    def _planned(self, subtask: SubtaskId, uid: str, offset: int) -> list[str]:
        """Return the files after ``offset`` in Spark's log of a source, which is in the newest attempt's folder."""
        home = subtask_path(self.state.job_id, subtask.vertex, subtask.number)
        folders = AttemptFolders(self.storage, f"{home}/spark")
        attempt = folders.previous(self.logs[subtask].records())
        if attempt is None:
            return []
        named = taken_after(self.storage, f"{folders.folder(attempt).path}/sources/{uid}", offset)
        return [unquote(uri) for _, uri in named]

    def _offset(self, subtask: SubtaskId, uid: str) -> int:
        last_batch = self.logs[subtask].state.last_batch
        return -1 if last_batch is None else log_offset(last_batch.offsets.get(uid))


def newly_forgotten(
    spark: SparkSession, paths: Sequence[str], forgotten: Sequence[str], files: SourceFiles
) -> tuple[str, ...]:
    """Return those of the given ``paths`` that no earlier run has abandoned (``forgotten``).

    Raises ForgottenFileError if any of the returned files exists, or if no source has to read it.
    """
    forgotten_keys = {key_of(path) for path in forgotten}
    new_paths = [path for path in dict.fromkeys(paths) if key_of(path) not in forgotten_keys]
    of_sources = files.known() if new_paths else {}
    for path in new_paths:
        if _is_there(spark, path):
            raise ForgottenFileError(
                "--forget-file {file}: the file exists, and the job reads it. Only files that are gone can be given "
                "up; leave the option out",
                file=redact_uri(path),
            )
        if key_of(path) not in of_sources:
            unread = [uri for uri in files.unread() if key_of(uri) not in forgotten_keys]
            raise ForgottenFileError(
                "--forget-file {file}: no source of the job waits for this file. {awaited}. Give such a name, or "
                "leave the option out",
                file=redact_uri(path),
                awaited=_gone(spark, unread),
            )
    return tuple(map(redact_uri, new_paths))


def _gone(spark: SparkSession, files: Sequence[str]) -> str:
    missing = [shown_path(uri) for uri in files if not _is_there(spark, uri)]
    if not missing:
        return "All files that its sources wait for are there"
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"Its sources wait for these files, which are gone: {', '.join(missing[:_NAMED])}{more}"


def _is_there(spark: SparkSession, path: str) -> bool:
    """Return whether Spark finds a path. A path on a file system that Spark cannot reach counts as missing."""
    jvm: Any = spark._jvm
    try:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        return bool(hadoop_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(hadoop_path))
    except Py4JError:
        return False
