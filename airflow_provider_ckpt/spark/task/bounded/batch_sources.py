"""Files that a vertex in BATCH mode reads. They are compared after they were read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from airflow_provider_ckpt.coordinator.protocol.reports import TaskReport
from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.model.file_status import FileStatus
from airflow_provider_ckpt.model.ids import TaskId
from airflow_provider_ckpt.spark.query.sources.file_index import index_of, statuses
from airflow_provider_ckpt.spark.query.sources.file_polls import listed
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.spark.task.streaming.file_watch import report_of
from airflow_provider_ckpt.task.read_files import ReadFiles

_POLL = 0.1


class BatchSources:
    """The files of the sources at the time when the query was built. ``frames``: source -> its function's result."""

    def __init__(self, frames: Mapping[str, DataFrame], reads: Mapping[str, SourceReads]) -> None:
        self._reads = {uid: read for uid, read in reads.items() if read.is_file and uid in frames}
        self._frames = {uid: frames[uid] for uid in self._reads}
        self._files = ReadFiles()
        for uid, frame in self._frames.items():
            self._files.add(uid, _files_of(frame), time.monotonic(), time.time())

    def compare(
        self,
        job: Job,
        task_id: TaskId,
        tell: Callable[[TaskReport], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Report files that have changed since the query was built. Young files are compared after a few seconds.

        Raises TransientError.
        """
        until = self._files.settles_at(self._reads)
        while time.monotonic() < until and not is_over():
            time.sleep(_POLL)
        for uid, read in self._reads.items():
            changed = self._files.changed(uid, listed(self._frames[uid].sparkSession, read))
            if not changed:
                continue
            short = next((one for one in changed if one.size != one.read), None)
            if short is not None and job.operators[uid].on_unfinished == "fail":
                raise TransientError(
                    "source {source!r}: {file}. So it was still being written, or was replaced. Files of the source "
                    "that changed while they were read: {count}. Nothing was released; another try reads them again. "
                    "Have the producer write under a hidden name (.name or _name), and rename the file when it is "
                    "complete",
                    source=uid,
                    count=len(changed),
                    file=str(short),
                )
            tell(report_of(task_id, uid, changed))


def _files_of(frame: DataFrame) -> Iterator[FileStatus]:
    plan: Any = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    for index in map(index_of, map(leaves.apply, range(leaves.size()))):
        if index is not None:
            yield from statuses(index)
