"""Environment variables that make the JVMs of a spark-submit start sooner.

Both variables are for the JVMs on this machine only. Executors, and a driver in cluster mode, do not get them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.jvm.class_archive import SUBMIT, class_archive
from airflow_provider_ckpt.jvm.errors import ForeignArchiveError

log = logging.getLogger(__name__)

LAUNCHER = "SPARK_LAUNCHER_OPTS"
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""An option for the JVM that builds spark-submit's command line. Its optimizing compiler would take half a second."""
_USER_OPTIONS = re.compile(r"-Xshare|-XX:[+-]?(\w*SharedArchive|ArchiveClasses|AOT)")
"""Pattern of options by which a user controls class sharing. Some do not work with an archive, so none is used then."""
_READ_BY_JVMS = (SUBMIT, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")
_VERIFY = "-XX:+VerifySharedSpaces"
"""An option that makes the JVM check the archive's checksums. A damaged archive crashes a JVM without it (SIGSEGV)."""


def jvm_environ(environ: Mapping[str, str], given: Iterable[str] = (), submit: str | None = None) -> dict[str, str]:
    """Return the variables to add to ``environ``: name → value.

    Args:
        given: Other texts with JVM options of the user, such as Spark's settings.
        submit: The spark-submit to call; None for PySpark's own.
    """
    added = {} if LAUNCHER in environ else {LAUNCHER: _QUICK_COMPILER}
    if not any(map(_USER_OPTIONS.search, [*(environ.get(name, "") for name in _READ_BY_JVMS), *given])):
        options = _archive_options(environ, submit)
        if options:
            # in front, because the last of repeated options wins, and that must be the user's
            added[SUBMIT] = " ".join([*options, environ.get(SUBMIT, "")]).strip()
    return added


def _archive_options(environ: Mapping[str, str], submit: str | None) -> list[str]:
    """Return the JVM options that use the archive; none without an archive.

    The options switch off the archive's log. A JVM that does not use the archive would print this log to standard
    output.
    """
    try:
        archive = class_archive(environ, submit)
        path = archive.find() if archive else None
    except ForeignArchiveError as error:
        log.warning("The driver starts without a class archive: %s", error)
        return []
    except OSError as error:
        log.info("The driver starts without a class archive: %s", error)
        return []
    if archive is None or path is None:
        return []
    # Java 24 renamed the log's tag, and an unknown tag keeps a JVM from starting
    tags = ["cds", "aot"] if int(re.split(r"\D", archive.java)[0]) >= 24 else ["cds"]
    return [*(f"-Xlog:{tag}*=off" for tag in tags), _VERIFY, f'"-XX:SharedArchiveFile={path}"']
