"""The file of this process with full stack traces. A terminal and a task's log show one line of each trace."""

from __future__ import annotations

import functools
import logging
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from airflow_provider_ckpt.connections.environment import secrets_of_connections
from airflow_provider_ckpt.printable import one_line, printable
from airflow_provider_ckpt.status.status_line import TRACES, StatusLine
from airflow_provider_ckpt.status.status_reporter import OnStatus
from airflow_provider_ckpt.storage.redaction import given_secrets, redact

_FRAME = '  File "'


@dataclass(frozen=True)
class TraceFile:
    """A file for stack traces that only its owner can read. The first text creates it.

    ``secrets`` are removed from all texts.
    """

    path: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    def redact(self, text: str) -> str:
        return redact(text, {*self.secrets, *given_secrets()})

    def append(self, text: str) -> None:
        """Append a paragraph. Ignore errors, because the run must continue without the file."""
        with suppress(OSError), open(self.path, "a", encoding="utf-8", opener=_private) as file:
            file.write(f"{printable(self.redact(text)).rstrip()}\n")

    def shortened(self, text: str) -> str:
        """Return a text of one line. Append a longer text to the file, and return its first line with the file's name.

        If the file cannot be written, return the whole text.
        """
        first, _, rest = self.redact(text).strip().partition("\n")
        first = one_line(first.rstrip())
        if not rest:
            return first
        self.append(text)
        return f"{first}{self.pointer}" if self.exists else text

    @property
    def pointer(self) -> str:
        """The end of a shortened line: a text that names the file."""
        return f" [more in {self.path}]"


def keeping_traces(on_status: OnStatus, file: TraceFile) -> OnStatus:
    """Return an ``on_status`` that also writes tracebacks to ``file`` if a line does not show them in full.

    The last line of a failed run names the file.
    """

    def report(line: StatusLine) -> None:
        if line.traceback is not None and not _is_shown(line):
            file.append(f"{line.message}\n{line.traceback}")
        if line.went_wrong and file.exists:
            line = replace(line, data={**line.data, TRACES: file.path})
        on_status(line)

    return report


def _is_shown(line: StatusLine) -> bool:
    """Return True if the shown line has the whole traceback, because all of its frames are the user's."""
    return bool(line.frames) and (line.traceback or "").count(_FRAME) == line.frames.count(_FRAME)


def trace_file() -> TraceFile:
    """Return the file of this process, with the current secrets of the process."""
    return TraceFile(_path(), tuple(sorted({*given_secrets(), *secrets_of_connections()})))


@functools.cache
def _path() -> str:
    """Return a path that cannot be guessed, because other users may write to the folder."""
    return os.path.join(tempfile.gettempdir(), f"ckpt-{secrets.token_hex(8)}.log")


@contextmanager
def short_lines(on_status: OnStatus) -> Iterator[OnStatus]:
    """Write stack traces to the file of this process while it runs a job. Yield the ``on_status`` to use.

    That function hides secrets, because Spark and the storage libraries quote their arguments.
    """
    file = trace_file()

    def redacted(line: StatusLine) -> None:
        on_status(line.redacted(file.redact))

    with short_records(file):
        yield keeping_traces(redacted, file)


@contextmanager
def short_records(file: TraceFile) -> Iterator[None]:
    """Print each logged warning and error in one line during the block, unless the user's code configures logging."""
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler = _ShortRecords(file)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _ShortRecords(logging.Handler):
    def __init__(self, file: TraceFile) -> None:
        super().__init__(logging.WARNING)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        print(self._file.shortened(self.format(record)), file=sys.stderr, flush=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
