"""What the environment of a spark-submit is given, so that its JVMs start sooner.

Both variables are for the JVMs on this machine alone: an executor, or a driver in cluster mode, never sees them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.launch.class_archive import ClassArchive, class_archive
from airflow_provider_ckpt.launch.errors import ForeignArchiveError
from airflow_provider_ckpt.launch.java_home import find_java

log = logging.getLogger(__name__)

SUBMIT, LAUNCHER = "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"
_THEIRS = re.compile(
    r"-Xshare|-XX:[+-]?(SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive|DumpLoadedClassList"
    r"|SharedClassListFile|AOT)|--properties-file"
)
"""Whoever has chosen what classes are shared keeps that. A file of settings may say it, too, and is not read here."""
_QUICK, _SERIAL = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"
"""For the JVM that makes spark-submit's command line and ends: half a second of it was its optimizing compiler's."""
_ALL_READ = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""By every JVM, that one too."""
_JVM_READS = (SUBMIT, *_ALL_READ, "PYSPARK_SUBMIT_ARGS")
_COLLECTOR = re.compile(r"-XX:[+-]Use\w+GC\b")
"""A JVM that is given two of them does not start."""
_VERIFIED = "-XX:+VerifySharedSpaces"
"""Else a JVM takes an archive without a look at its checksums, and dies of one that a disk has damaged (SIGSEGV), as
does each driver after it."""


def jvm_environ(environ: Mapping[str, str], given: Iterable[str] = (), submit: str | None = None) -> dict[str, str]:
    """What to add to ``environ``. ``given``: other texts in which the user may have said options of the JVM, such as
    Spark's settings; ``submit``: the spark-submit that is going to be called, if it is not PySpark's own."""
    if find_java(environ) is None:
        return {}
    added = {} if LAUNCHER in environ else {LAUNCHER: _quick_options(environ)}
    options = _archive_options(environ, given, submit)
    if options:
        # in front: of an option that is given twice the last one holds, and that is the user's
        added[SUBMIT] = " ".join([*options, environ.get(SUBMIT, "")]).strip()
    return added


def _quick_options(environ: Mapping[str, str]) -> str:
    is_chosen = any(_COLLECTOR.search(environ.get(name, "")) for name in _ALL_READ)
    return _QUICK if is_chosen else f"{_QUICK} {_SERIAL}"


def says_what_is_shared(environ: Mapping[str, str], given: Iterable[str] = ()) -> bool:
    """Whether the user has options of their own for the classes that JVMs share."""
    return any(_THEIRS.search(text) for text in [*(environ.get(name, "") for name in _JVM_READS), *given])


def _archive_options(environ: Mapping[str, str], given: Iterable[str], submit: str | None) -> list[str]:
    if says_what_is_shared(environ, given):
        return []
    try:
        archive = class_archive(environ, submit)
        # a JVM takes no archive while the folder of settings, which is on its class path, is not empty
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
    """A JVM that does not take an archive starts without, and says so on standard output, among what a program may be
    reading there."""
    tags = ["cds", *(["aot"] if archive.java.major >= 24 else [])]  # an unknown one keeps a JVM from starting
    return ["-Xshare:auto", *(f"-Xlog:{tag}*=off" for tag in tags)]
