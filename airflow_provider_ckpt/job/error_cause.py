"""Extraction of the user's exception from the error text of Spark, as one line.

Spark surrounds the exception with its own stack traces, the query and the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ckpt.printable import one_line

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(: .*)?$")
_WRAPPER = re.compile(r":? ?(An exception was raised by the Python Proxy|An exception was thrown from).*", re.DOTALL)
_LAST = re.compile(r"\n(; [^\n]*)$")
_FOREIGN = ("site-packages", "dist-packages", "pyspark.zip", "/lib/python", "<frozen ", "<string>")
_PACKAGE = str(Path(__file__).parent.parent)


def cause_first(text: str) -> str:
    """Return ``text`` as one line that begins with its cause, which is the exception of the user's code.

    A text with Python's traceback becomes the exception, the user's line of code and the text's first line. Any other
    text becomes its first line. A last line that begins with a semicolon is kept, because this package wrote it.
    Control characters are escaped, because the text may quote data.
    """
    return one_line(_one_line_cause(text.strip()))


def _one_line_cause(text: str) -> str:
    if "\n" not in text:
        return text
    own_words = _LAST.search(text)
    ending = own_words.group(1) if own_words else ""
    context = _WRAPPER.sub("", text.partition(_TRACEBACK)[0]).strip().partition("\n")[0].strip(" :;")
    exception_line = _raised(text)
    if exception_line is None:
        return context + ending
    return f"{exception_line}. {context[:1].upper()}{context[1:]}{ending}" if context else exception_line + ending


def _raised(text: str) -> str | None:
    """Return the exception of the last traceback with the user's innermost line of code. None without a traceback."""
    _, header, last = text.rpartition(_TRACEBACK)
    if not header:
        return None
    place = None
    for line in last.splitlines()[1:]:
        frame = _FRAME.match(line)
        if frame and _is_users_file(frame["file"]):
            place = f"{frame['file']}:{frame['line']}"
        if not line.startswith(" ") and _EXCEPTION.match(line):
            return line + (f" ({place})" if place else "")
    return None


def users_frames(text: str) -> str:
    """Return the frames of the user's files in the last Python traceback of ``text``; empty without a traceback."""
    _, header, last = text.rpartition(_TRACEBACK)
    return "".join(f"{line}\n" for frame in _frames(last if header else "") for line in frame)


def _frames(trace: str) -> Iterator[list[str]]:
    """Yield each frame of the user's code as its ``File`` line with the source lines below it."""
    frame: list[str] = []
    for line in trace.splitlines()[1:]:
        if not line.startswith(" "):
            break
        started = _FRAME.match(line)
        if started:
            yield frame
            frame = []
        if frame or (started and _is_users_file(started["file"])):
            frame.append(line)
    yield frame


def _is_users_file(file: str) -> bool:
    return not file.startswith(_PACKAGE) and not any(part in file for part in _FOREIGN)
