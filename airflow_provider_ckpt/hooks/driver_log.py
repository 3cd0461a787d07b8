"""The output of a driver in a task's log, with the log levels of the driver's lines."""

from __future__ import annotations

import logging
import re
from typing import Any, Protocol

from airflow_provider_ckpt.printable import one_line, printable
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine

_LOG4J = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\w+) ")
_CONTINUED = re.compile(r"\s|$|Caused by: |Traceback \(most recent call last\)|[\w.$]+(Exception|Error)\b")
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_WARNINGS = (LineKind.WARNING, LineKind.SUBTASK_RESTARTING, LineKind.ABORTED, LineKind.LATE_FILES)


class Log(Protocol):
    def log(self, level: int, text: str, /, *args: Any) -> Any: ...


class LineLevels:
    """Log levels of a driver's lines. The lines must be passed in order."""

    def __init__(self) -> None:
        self._level = logging.INFO

    def of(self, line: str) -> int:
        """Return the level that Spark's line states. A stack trace has the level of its event, any other line INFO."""
        match = _LOG4J.match(line)
        if match and match[1] in _LEVELS:
            self._level = _LEVELS[match[1]]
        elif not _CONTINUED.match(line):
            self._level = logging.INFO
        return self._level


def log_status(log: Log, line: StatusLine) -> None:
    """Log a status line, and below it the frames of the user's code that failed."""
    level = _level_of(line)
    if not line.is_quiet:
        log.log(level, "%s", one_line(line.message.rstrip()))
    if line.frames:
        log.log(level, "%s", printable(line.frames.rstrip()))
    if line.traces is not None:
        log.log(logging.INFO, "whole stack traces are in %s, on the host of the driver", one_line(line.traces))


def _level_of(line: StatusLine) -> int:
    if line.went_wrong or line.kind == LineKind.SUBTASK_FAILED:
        return logging.ERROR
    return logging.WARNING if line.kind in _WARNINGS else logging.INFO
