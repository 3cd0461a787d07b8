"""The output of a command, made safe for a terminal.

A journal holds texts of users and of their data. They may hold escape sequences, and halves of characters that no
terminal can show.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from airflow_provider_ckpt.printable import printable


@contextmanager
def printable_output() -> Iterator[None]:
    """Escape control characters in the output of the block. Line breaks and tabs stay."""
    with redirect_stdout(_Printable(sys.stdout)), redirect_stderr(_Printable(sys.stderr)):
        yield


class _Printable:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
