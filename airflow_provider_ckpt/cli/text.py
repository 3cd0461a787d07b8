"""Plain text for users: tables, instants and durations, without a dependency."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from airflow_provider_ckpt.printable import instant_text, one_line, printable


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return left-aligned columns, two spaces apart. None is shown as "-"."""
    cells = [list(head), *[["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def fields(pairs: Sequence[tuple[str, object]]) -> str:
    """Return one "name  value" line for each pair. Pairs whose value is None or empty are omitted."""
    shown = [(name, value) for name, value in pairs if value is not None and value not in ("", (), [])]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(width)}  {one_line(str(value))}" for name, value in shown)


def instant(epoch_seconds: float | None) -> str | None:
    return None if epoch_seconds is None else instant_text(epoch_seconds)


def duration(milliseconds: float | None) -> str | None:
    if milliseconds is None:
        return None
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


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
