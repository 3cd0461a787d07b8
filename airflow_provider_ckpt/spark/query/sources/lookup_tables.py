"""Lookup tables: files that a streaming query reads as a batch. Spark lists them only when the query starts."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_provider_ckpt.spark.query.analysed_plan import analysed, children_of, nodes_from
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.storage.redaction import redact_uri


def lookup_tables(frame: DataFrame) -> tuple[str, ...]:
    """Return the folders of a frame's lookup tables as texts without secrets. A text says if a folder has no file.

    Tables whose files Spark lists again for each micro-batch are left out.
    """
    tables = list[str]()
    for node in nodes_from(analysed(frame)):
        index = None if children_of(node) or node.isStreaming() else index_of(node)
        if index is not None:
            paths, note = index.rootPaths(), " (which holds no file)" if index.allFiles().isEmpty() else ""
            tables += [f"{redact_uri(str(paths.apply(number).toString()))}{note}" for number in range(paths.size())]
    return tuple(dict.fromkeys(tables))
