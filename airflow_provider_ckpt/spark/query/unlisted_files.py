"""Local files that are there, and that Spark's listing leaves out without a word."""

from __future__ import annotations

import codecs
import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.query.errors import UnlistedFileError
from airflow_provider_ckpt.spark.query.reader import SourceReads

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def refuse_unlisted(spark: SparkSession, uid: str, location: str, reads: SourceReads) -> None:
    """Raises UnlistedFileError for a file or folder that Hadoop's local file system does not list: Java cannot make a
    name of its bytes (in the C locale of any that is not ASCII), or may not enter the folder. Its rows would be lost.

    Of what is there now. What other file systems list is taken for all there is.
    """
    encoding = _encoding(spark)
    for root in _local(spark, reads.paths):
        for path, problem in _unlisted(root, encoding):
            raise UnlistedFileError(uid=uid, location=location, path=ascii(path)[1:-1], problem=problem)


def _encoding(spark: SparkSession) -> str:
    """In which Java takes the bytes of a name for text."""
    jvm: Any = spark._jvm
    name = jvm.java.lang.System.getProperty("sun.jnu.encoding") or "UTF-8"
    try:
        return codecs.lookup(name).name
    except LookupError:  # one that Python does not have
        return "utf-8"


def _local(spark: SparkSession, paths: Iterable[str]) -> Iterator[str]:
    """The folders on this machine's disks. A pattern stands for what is there."""
    context: Any = spark._jsc
    default = context.hadoopConfiguration().get("fs.defaultFS", "file:///")
    for path in paths:
        if not _SCHEME.match(path) and not default.startswith("file:"):
            continue
        if _SCHEME.match(path) and not path.startswith("file:"):
            continue
        place = re.sub(r"^file:/*", "/", path)  # Spark's paths are not escaped: a # in one is no fragment
        yield from glob.glob(place) if glob.has_magic(place) else [place]


def _unlisted(folder: str, encoding: str, within: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """``within``: the folders around it, by which a link that leads back to one of them is known."""
    real = os.path.realpath(folder)
    if real in within or not os.path.isdir(folder):
        return
    if not os.access(folder, os.R_OK | os.X_OK):
        yield folder, "this user may not list and enter it"
        return
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not _is_hidden(entry.name)]
    except FileNotFoundError:
        return  # it has gone since
    except OSError as error:
        yield folder, f"it cannot be listed ({error.strerror})"
        return
    for entry in entries:
        if not _is_text(entry.name, encoding):
            yield entry.path, f"its name cannot be read in Java's encoding of file names, {encoding}"
        elif entry.is_dir():
            yield from _unlisted(entry.path, encoding, within | {real})


def _is_hidden(name: str) -> bool:
    """Spark's rule (``HadoopFSUtils.shouldFilterOutPathName``)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _is_text(name: str, encoding: str) -> bool:
    try:
        os.fsencode(name).decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
