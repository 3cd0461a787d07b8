"""A check of file sinks of one job that share a folder, because readers treat a folder as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from airflow_provider_ckpt.job.sink_operator import SinkOperator
from airflow_provider_ckpt.sinks.file.column_differences import columns_refused, differences
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.storage.nesting import segments


def refuse_unlike_columns(sinks: Sequence[SinkOperator], inputs: Mapping[str, SinkInput]) -> None:
    """Refuse two sinks that write different columns to one folder.

    ``inputs``: sink uid -> the form of its rows. A finished sink has no entry.

    Raises TargetRefusedError.
    """
    writers = [operator for operator in sinks if isinstance(operator.sink, FileSink) and operator.uid in inputs]
    for earlier, later in combinations(writers, 2):
        if segments(earlier.sink.path) == segments(later.sink.path):
            _compare(earlier.sink, inputs[earlier.uid], inputs[later.uid])


def _compare(sink: FileSink, earlier: SinkInput, later: SinkInput) -> None:
    phrases = differences(
        later.columns,
        earlier.columns,
        f"sink {later.uid}",
        f"sink {earlier.uid}",
        sink.format,
        sink.partition_by,
    )
    if phrases:
        [place] = sink.spark_folders({})
        raise columns_refused(later.uid, place.for_display(), f"sink {earlier.uid}", phrases)
