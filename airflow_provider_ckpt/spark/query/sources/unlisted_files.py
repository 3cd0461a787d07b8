"""Checks for local files and folders that Spark silently leaves out when it lists a source's folder."""

from __future__ import annotations

import codecs
import errno
import glob
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.query.errors import UnreadableFileError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.nesting import is_hidden

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def refuse_unlisted(spark: SparkSession, uid: str, location: str, reads: SourceReads) -> None:
    """Refuse a source with a file or folder that Hadoop's local file system does not list. Its rows would be lost.

    Hadoop leaves out folders that it may not enter, and names that Java cannot decode. In the C locale, Java decodes
    only ASCII names. Only files and folders that exist now are checked. Paths in other file systems are not checked.

    Raises UnreadableFileError.
    """
    encoding = _encoding(spark)
    for root in _local(spark, reads.patterns):
        for path, problem in _unlisted(root, encoding):
            raise UnreadableFileError(
                "source {uid!r} ({location}): Spark would leave out {path}: {problem}. Its rows would be missing. "
                "Rename it or give access to it; for names that are not ASCII, start the job in a UTF-8 locale "
                "(LC_ALL=C.UTF-8).",
                uid=uid,
                location=location,
                path=ascii(path)[1:-1],
                problem=problem,
            )


def _encoding(spark: SparkSession) -> str:
    """Return the encoding in which Java decodes file names."""
    jvm: Any = spark._jvm
    name = jvm.java.lang.System.getProperty("sun.jnu.encoding") or "UTF-8"
    try:
        return codecs.lookup(name).name
    except LookupError:  # Python does not know the encoding
        return "utf-8"


def _local(spark: SparkSession, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that are on local disks, without scheme. A pattern is replaced by the paths that match it."""
    context: Any = spark._jsc
    default = context.hadoopConfiguration().get("fs.defaultFS", "file:///")
    for path in paths:
        if not _SCHEME.match(path) and not default.startswith("file:"):
            continue
        if _SCHEME.match(path) and not path.startswith("file:"):
            continue
        pattern = re.sub(r"^file:/*", "/", path)  # Spark's paths are not escaped, so "#" begins no fragment
        yield from glob.glob(pattern) if glob.has_magic(pattern) else [pattern]


def _unlisted(folder: str, encoding: str, within: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) of each file or folder below ``folder`` that Hadoop does not list.

    ``within``: real paths of the folders around ``folder``, so that a link to any of these ends the search.
    """
    real = os.path.realpath(folder)
    if real in within or not os.path.isdir(folder):
        return
    if not os.access(folder, os.R_OK | os.X_OK):
        yield folder, "this user may not list and enter it"
        return
    try:
        with os.scandir(folder) as scanned:
            entries = [entry for entry in scanned if not is_hidden(entry.name)]
    except FileNotFoundError:
        return  # it was deleted in the meantime
    except OSError as error:
        yield folder, f"it cannot be listed ({error.strerror})"
        return
    for entry in entries:
        if not _is_text(entry.name, encoding):
            yield entry.path, f"its name cannot be read in Java's encoding of file names, {encoding}"
            continue
        try:
            is_folder = entry.is_dir()
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link to itself has no rows
                yield entry.path, f"it cannot be read ({error.strerror})"
            continue
        if is_folder:
            yield from _unlisted(entry.path, encoding, within | {real})


def _is_text(name: str, encoding: str) -> bool:
    try:
        os.fsencode(name).decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
