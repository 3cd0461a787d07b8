"""Environment variables that make the JVMs of a spark-submit start sooner.

Both variables are for the JVMs on this machine only. Executors, and a driver in cluster mode, do not get them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.jvm.class_archive import ClassArchive, class_archive
from airflow_provider_ckpt.jvm.errors import ForeignArchiveError
from airflow_provider_ckpt.jvm.java_home import find_java

log = logging.getLogger(__name__)

SUBMIT, LAUNCHER = "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"
_THEIRS = re.compile(
    r"-Xshare|-XX:[+-]?(SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive|DumpLoadedClassList"
    r"|SharedClassListFile|AOT)|--properties-file"
)
"""Options of a user who controls class sharing. They are kept. A properties file may contain some and is not read."""
_QUICK, _SERIAL = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"
"""Options for the JVM that builds spark-submit's command line and ends. Its optimizing compiler took half a second."""
_ALL_READ = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Variables that every JVM reads, including the one that builds the command line."""
_JVM_READS = (SUBMIT, *_ALL_READ, "PYSPARK_SUBMIT_ARGS")
_COLLECTOR = re.compile(r"-XX:[+-]Use\w+GC\b")
"""A choice of collector. A JVM with two such options does not start."""
_VERIFIED = "-XX:+VerifySharedSpaces"
"""An option that makes the JVM check the archive's checksums. Without it an archive that a disk has damaged crashes
every driver (SIGSEGV).
"""


def jvm_environ(environ: Mapping[str, str], given: Iterable[str] = (), submit: str | None = None) -> dict[str, str]:
    """Return the variables to add to ``environ``.

    Args:
        environ: The environment of the spark-submit.
        given: Other texts with JVM options of the user, such as Spark's settings.
        submit: The spark-submit to call; None for PySpark's own.
    """
    if find_java(environ) is None:
        return {}
    added = {} if LAUNCHER in environ else {LAUNCHER: _quick_options(environ)}
    options = _archive_options(environ, given, submit)
    if options:
        # in front, because the last of repeated options wins, and that must be the user's
        added[SUBMIT] = " ".join([*options, environ.get(SUBMIT, "")]).strip()
    return added


def _quick_options(environ: Mapping[str, str]) -> str:
    is_chosen = any(_COLLECTOR.search(environ.get(name, "")) for name in _ALL_READ)
    return _QUICK if is_chosen else f"{_QUICK} {_SERIAL}"


def says_what_is_shared(environ: Mapping[str, str], given: Iterable[str] = ()) -> bool:
    """Return True if the user has set options for class sharing."""
    return any(_THEIRS.search(text) for text in [*(environ.get(name, "") for name in _JVM_READS), *given])


def _archive_options(environ: Mapping[str, str], given: Iterable[str], submit: str | None) -> list[str]:
    if says_what_is_shared(environ, given):
        return []
    try:
        archive = class_archive(environ, submit)
        # a JVM takes no archive unless the folder of settings, which is on its class path, is empty
        found = None if archive is None or archive.spark.has_settings() else archive.find()
    except ForeignArchiveError as error:
        log.warning("The driver starts without a class archive: %s", error)
        return []
    except OSError as error:
        log.info("The driver starts without a class archive: %s", error)
        return []
    if archive is None or found is None:
        return []
    return [*quiet_options(archive), _VERIFIED, f'"-XX:SharedArchiveFile={found}"']


def quiet_options(archive: ClassArchive) -> list[str]:
    """Return options that keep a JVM quiet about an unusable archive.

    Otherwise it would start without the archive and print that to standard output, which a program may be reading.
    """
    tags = ["cds", *(["aot"] if archive.java.major >= 24 else [])]  # an unknown tag keeps a JVM from starting
    return ["-Xshare:auto", *(f"-Xlog:{tag}*=off" for tag in tags)]
