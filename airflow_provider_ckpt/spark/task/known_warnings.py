"""What Spark warns of because of the way this package drives it, and nobody can do anything about."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

MESSAGES = (
    # known before the query starts, and Spark does the right thing by itself
    r"spark\.sql\.adaptive\.enabled is not supported in streaming",
    r"Disabling AQE since AQE is not supported in stateful workloads",
    # an offset log entry of a query without state does not name its partitions
    r"Conf '.*' was not found in the offset log",
    # a query is stopped by cancelling its job group, also when no job of it runs any more
    r"Failed to cancel job group .* Cannot find active jobs for it",
    # the rows of a planned batch, such as the last one of a drain, were chosen before it runs
    r"The read limit .* for .* is ignored when Trigger\.Once is used",
)

REPEATED = (
    r"\AAborting task\z",
    r"\AAborting job ",
    r"\ACould not delete \S*/_temporary/",
    r"\AException in task ",
    r"\AIncomplete task interrupted: Attempting to kill Python Worker",
    r"\AJob: \S+, Task: \S+, Task attempt \S+ aborted",
)
"""Events of a task that fails. Spark logs the task and its cause once more, as ``Lost task …``."""

INTERRUPTED = "java.lang.InterruptedException"
"""How the message of an error begins that ends a batch of a query that is stopped. Spark recognizes an interruption by
this name."""

_DONE = "airflow_provider_ckpt.quiet"


def silence(spark: SparkSession) -> None:
    """Keep those messages out of the driver's log; all others come as before. For a session whose logging nobody has
    configured; once for a driver."""
    ignore_interruptions()
    jvm: Any = spark._jvm
    if jvm.java.lang.System.setProperty(_DONE, "true") is not None:
        return
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    context.getConfiguration().addFilter(message_filter(log4j, MESSAGES))
    context.updateLoggers()


def ignore_interruptions() -> None:
    """Keep batches that a stop interrupts out of Py4J's log. Py4J logs every error of a batch with its stack trace."""
    logging.getLogger("py4j.clientserver").addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not str(record.exc_info[1]).startswith(f"{INTERRUPTED}: ")


def message_filter(log4j: Any, patterns: Iterable[str]) -> Any:
    """Return a filter of log4j that denies messages with one of ``patterns`` in them."""
    result = getattr(log4j.core, "Filter$Result")
    pattern = f"(?s).*(?:{'|'.join(patterns)}).*"
    return log4j.core.filter.RegexFilter.createFilter(pattern, None, False, result.DENY, result.NEUTRAL)
