"""Checks for files that Spark would skip, or read as wrong rows.

Spark silently skips an empty file of Parquet or ORC, although a proper file always has a footer. It reads the bytes of
an archive as text if it does not know the archive's compression.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.analysed_plan import each
from airflow_provider_ckpt.spark.query.errors import EmptyFileError, UnreadableFileError
from airflow_provider_ckpt.spark.query.sources.file_index import index_of
from airflow_provider_ckpt.storage.redaction import redact_uri

_WITH_FOOTER = frozenset({"Parquet", "ORC"})
_OF_TEXT = frozenset({"CSV", "JSON", "Text", "XML"})
_EMPTY = re.compile(r"^\w+\{path=(?P<path>.*?); isDirectory=false; length=0;", re.MULTILINE)
"""Pattern that finds an empty file in a list of texts of Hadoop's ``FileStatus``, one a line."""
_ARCHIVE = re.compile(
    r"^\w+\{path=(?P<path>[^\n;]*?(?P<kind>\.tar|\.t[gbx]z2?|\.tar\.\w+|\.zip|\.7z|\.rar|\.xz|\.lzma|\.lzo|\.br|\.z)); "
    r"isDirectory=false;",
    re.MULTILINE | re.IGNORECASE,
)
"""Pattern that finds an archive that Spark itself cannot unpack, in a list of texts of Hadoop's ``FileStatus``."""


def unfit_file(spark: SparkSession, subject: str, plan: Any) -> CkptError | None:
    """Return the error for the first file of a plan that Spark would misread; None if there is no such file.

    Args:
        subject: the source or query that reads the files, as the first words of the message.
        plan: Spark's analysed plan, whose leaves read the files.
    """
    relations = [(index_of(leaf), leaf.relation()) for leaf in each(plan.collectLeaves()) if index_of(leaf) is not None]
    errors = (_unfit_file(spark, subject, index, relation) for index, relation in relations)
    return next((error for error in errors if error is not None), None)


def _unfit_file(spark: SparkSession, subject: str, index: Any, relation: Any) -> CkptError | None:
    form = str(relation.fileFormat().toString())
    if form not in _WITH_FOOTER | _OF_TEXT:
        return None
    listed = str(index.allFiles().mkString("\n"))  # one call of the JVM, because there may be many files
    if form in _WITH_FOOTER:
        empty = _EMPTY.search(listed)
        return None if empty is None else EmptyFileError(subject=subject, file=redact_uri(empty["path"]), format=form)
    for archive in _ARCHIVE.finditer(listed):
        if ".t" in archive["kind"].lower() or not _has_codec(spark, archive["path"]):
            return UnreadableFileError(
                "{subject} cannot read {file}: Spark does not know {kind}, and would read the bytes of the file as "
                "text. Nothing of it was released. Unpack it, or compress it with gzip, under a name that Spark knows "
                "(.gz), and move this file away. If a micro-batch was planned with it already, docs/producers.md says "
                "how to continue",
                subject=subject,
                file=redact_uri(archive["path"]),
                kind=archive["kind"],
            )
    return None


def _has_codec(spark: SparkSession, path: str) -> bool:
    """Return whether Hadoop has a codec for the file's name, because the user has added it."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    factory = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf)
    return factory.getCodec(jvm.org.apache.hadoop.fs.Path(path)) is not None
