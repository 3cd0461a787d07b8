"""Causes of failed queries. Spark wraps an exception of a user's function several times."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.storage.redaction import redact_given, redact_uri

_TRACEBACK = "Traceback (most recent call last):"
_END = re.compile(r"^(\s*SQLSTATE: |\tat |Caused by: |JVM stacktrace:|Driver stacktrace:|\s*$)")
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_CALLING = re.compile(r"^An error occurred while calling \S+\.$")
_CAUSED_BY = "Caused by: "
_FILE = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<file>.+?)\.\s")
_STATE = re.compile(r"SQLSTATE: \w+")
_OF_S3 = "(Service: S3,"
"""Text in each message of the AWS SDK for S3. Such a message does not name the S3 object."""
_OF_S3A = re.compile(r" on (s3a://)?[^\s:]+: .*\(Service: S3,")
"""Pattern of S3A's messages. They wrap a message of the SDK and name the S3 object: ``PutObject on lake/part-0: …``."""


@dataclass(frozen=True)
class Cause:
    """The innermost cause of a failure.

    Attributes:
        message: for example "ValueError: no such thing". It may have several lines.
        traceback: Python's traceback of the user's code; None if the failure did not come from Python.
        file: URI of the file that Spark was reading; None if Spark was reading no file.
    """

    message: str
    traceback: str | None = None
    file: str | None = None

    @property
    def in_file(self) -> str:
        """The message, with the file added if the message does not name it."""
        return self.message if self.file is None or self.file in self.message else f"{self.message}, in {self.file}"


def jvm_text(error: BaseException) -> str:
    """Return the message of ``error`` and the JVM's stack trace, which names the causes."""
    return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"


def file_being_read(error: BaseException) -> str | None:
    """Return the URI, without secrets, of the file that Spark failed to read; None for any other failure."""
    match = _FILE.search(jvm_text(error))
    return None if match is None else redact_uri(match["file"])


def describe_error(error: BaseException) -> str:
    """Return the text of an error of this package, or the innermost cause of any other error."""
    return str(error) if isinstance(error, CkptError) else find_cause(error).in_file


def find_cause(error: BaseException) -> Cause:
    """Return the innermost cause of ``error``, an error of Spark: an exception of Python if any, or else of the JVM."""
    innermost = _innermost(error)
    trace = None if innermost.traceback is None else redact_given(innermost.traceback)
    return Cause(redact_given(innermost.message), trace, file_being_read(error))


def _innermost(error: BaseException) -> Cause:
    text = str(error)
    if _TRACEBACK in text:
        cause = _from_traceback(text)
        if cause is not None:
            return cause
    lines = text.strip().splitlines() or [""]
    if _CALLING.match(lines[0]) and len(lines) > 1:  # a wrapper of Py4J; the JVM's exception follows
        lines = lines[1:]
        lines[0] = _CAUSED_BY + lines[0].removeprefix(": ")
    roots = _roots(lines)
    root = roots[-1] if roots else _WRAPPING.sub("", lines[0])
    if not roots and not _STATE.sub("", root).strip():  # a cause without a message: only the JVM's stack trace names it
        roots = _roots(str(getattr(error, "_stackTrace", None) or "").splitlines())
        root = roots[-1] if roots else root
    named = _named_by_s3a(error) if _OF_S3 in root else None
    return Cause(named or (root if roots else kind_and_text(error, root)))


def _named_by_s3a(error: BaseException) -> str | None:
    """Return S3A's innermost message, which names the operation and the S3 object; None if S3A raised no exception."""
    lines = [
        _CAUSED_BY + line.removeprefix(": ") if line.startswith(": ") else line for line in jvm_text(error).splitlines()
    ]
    named = [root for root in _roots(lines) if _OF_S3A.search(root)]
    return named[-1] if named else None


def _roots(lines: list[str]) -> list[str]:
    return [line.removeprefix(_CAUSED_BY).strip() for line in lines if line.startswith(_CAUSED_BY)]


def _from_traceback(text: str) -> Cause | None:
    """Return the cause in the last traceback; None if it is cut off. Earlier tracebacks show callers of Spark."""
    block = text[text.rindex(_TRACEBACK) :].splitlines()
    start = next((n for n, line in enumerate(block[1:], 1) if line and not line[0].isspace()), None)
    if start is None:
        return None
    end = next((n for n, line in enumerate(block[start + 1 :], start + 1) if _END.match(line)), len(block))
    message = "\n".join(block[start:end]).rstrip()
    return Cause(message, "\n".join(block[:end]).rstrip())
