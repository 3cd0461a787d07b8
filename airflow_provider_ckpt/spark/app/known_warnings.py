"""Filter for warnings that are caused by this package's use of Spark. A user cannot avoid them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

MESSAGES = (
    # Spark switches adaptive execution off by itself, which is right
    r"spark\.sql\.adaptive\.enabled is not supported in streaming",
    r"Disabling AQE since AQE is not supported in stateful workloads",
    # the offset log of a stateless query does not name its shuffle partitions
    r"Conf '.*' was not found in the offset log",
    # a query is stopped by cancelling its job group, even if no job of the query is running
    r"Failed to cancel job group .* Cannot find active jobs for it",
    # the rows of a planned batch, such as the last batch of a drain, were chosen before it runs
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
"""Patterns of redundant log events of a failed task. Spark logs the task and its cause again as ``Lost task …``."""

INTERRUPTED = "java.lang.InterruptedException"
"""Start of the error message of an interrupted batch. By this text Spark recognizes that its query was stopped."""

_DONE = "airflow_provider_ckpt.quiet"


def silence(spark: SparkSession) -> None:
    """Filter :data:`MESSAGES` out of the driver's log. A second call in the same driver does nothing.

    Call this function only if the user has not configured logging.
    """
    ignore_interruptions()
    jvm: Any = spark._jvm
    if jvm.java.lang.System.setProperty(_DONE, "true") is not None:
        return
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    context.getConfiguration().addFilter(message_filter(log4j, MESSAGES))
    context.updateLoggers()


def ignore_interruptions() -> None:
    """Filter interrupted batches out of Py4J's log, which reports every error of a batch with its stack trace."""
    logging.getLogger("py4j.clientserver").addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not str(record.exc_info[1]).startswith(f"{INTERRUPTED}: ")


def message_filter(log4j: Any, patterns: Iterable[str]) -> Any:
    """Return a log4j filter that drops each message that matches any of ``patterns``."""
    result = getattr(log4j.core, "Filter$Result")
    pattern = f"(?s).*(?:{'|'.join(patterns)}).*"
    return log4j.core.filter.RegexFilter.createFilter(pattern, None, False, result.DENY, result.NEUTRAL)
