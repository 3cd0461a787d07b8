"""Spark's log in the driver: one line for each event on the console, whole stack traces in a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_ckpt.spark.app.known_warnings import REPEATED, message_filter
from airflow_provider_ckpt.status.trace_file import TraceFile
from airflow_provider_ckpt.storage.redaction import HIDDEN, SHORTEST

_TIME = "%d{yy/MM/dd HH:mm:ss} %p"
_LINE = r"\A[^\n]*\n*\z"
"""Pattern of a log event of one line. Such events are not written to the file."""
_MESSAGE = r"%replace{%m}{(?s)\s*\n\s*\S.*}{}"
_EXCEPTION = r"%notEmpty{: %replace{%ex{1}}{(?s)\s*\n.*}{}}"
_WHOLE = f"%replace{{{_TIME} %c: %m%n%ex}}{{{_LINE}}}{{}}"
_LARGEST = "20 MB"
_CONSOLE = "console"
_DONE = "airflow_provider_ckpt.traces"


def keep_traces(spark: SparkSession, file: TraceFile) -> None:
    """Make the JVM print one line for each log event, and write events of several lines to ``file``.

    The file is rotated at 20 MB, and one older file is retained. Call this function only if the user has not configured
    logging. A second call for the same JVM does nothing.
    """
    jvm: Any = spark._jvm
    if jvm.java.lang.System.setProperty(_DONE, "true") is not None:
        return
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    configuration = context.getConfiguration()
    if not configuration.getAppenders().containsKey(_CONSOLE):  # the logging is not Spark's default
        return
    root = configuration.getRootLogger()
    for appender in (_file_appender(log4j, configuration, file), _console_appender(log4j, configuration, file)):
        appender.start()
        configuration.addAppender(appender)
        root.addAppender(appender, None, None)
    root.removeAppender(_CONSOLE)
    context.updateLoggers()


def _console_appender(log4j: Any, configuration: Any, file: TraceFile) -> Any:
    appenders = log4j.core.appender
    target = getattr(appenders, "ConsoleAppender$Target").SYSTEM_ERR
    builder = appenders.ConsoleAppender.newBuilder().setTarget(target).setName("ckpt-console")
    builder = builder.setFilter(message_filter(log4j, REPEATED)).setConfiguration(configuration)
    return builder.setLayout(_layout(log4j, configuration, _hiding(_short(file), file.secrets))).build()


def _file_appender(log4j: Any, configuration: Any, file: TraceFile) -> Any:
    rolling = log4j.core.appender.rolling
    builder = log4j.core.appender.RollingFileAppender.newBuilder()
    builder = builder.withFileName(file.path).withFilePattern(f"{file.path}.%i").withFilePermissions("rw-------")
    builder = builder.withAppend(True).withCreateOnDemand(True)
    builder = builder.withPolicy(rolling.SizeBasedTriggeringPolicy.createPolicy(_LARGEST))
    strategy = rolling.DefaultRolloverStrategy.newBuilder().withMax("1").withConfig(configuration).build()
    builder = builder.withStrategy(strategy).setName("ckpt-traces").setConfiguration(configuration)
    return builder.setLayout(_layout(log4j, configuration, _hiding(_WHOLE, file.secrets))).build()


def _layout(log4j: Any, configuration: Any, pattern: str) -> Any:
    builder = log4j.core.layout.PatternLayout.newBuilder().withPattern(pattern)
    return builder.withConfiguration(configuration).build()


def _short(file: TraceFile) -> str:
    pointer = rf"%replace{{%replace{{%m%n%ex}}{{{_LINE}}}{{}}}}{{(?s).+}}{{{file.pointer}}}"
    return rf"{_TIME} %c{{1}}: %replace{{{_MESSAGE}{_EXCEPTION}}}{{\s+$}}{{}}{pointer}%n"


def _hiding(pattern: str, secrets: Iterable[str]) -> str:
    """Return ``pattern`` with the secrets hidden. Secrets are escaped, because a brace would end the pattern."""
    hidden = sorted((secret for secret in secrets if len(secret) >= SHORTEST), key=len, reverse=True)
    if not hidden:
        return pattern
    return f"%replace{{{pattern}}}{{{'|'.join(map(_code_units, hidden))}}}{{{HIDDEN}}}"


def _code_units(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
