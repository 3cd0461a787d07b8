"""Files under a root, by kind of folder, at each age of the job."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAMES = (
    (re.compile(r"^[^/]+/vertices/[^/]+/[0-9]+/"), "subtask/"),
    (re.compile(r"^subtask/spark/[^/]+/"), "subtask/spark/*/"),
    (re.compile(r"^subtask/spark/[^/]+\.json$"), "subtask/spark/*.json"),
    (re.compile(r"^(subtask/spark/\*/(?:sources|state))/.*"), r"\1/*"),
    (re.compile(r"^subtask/partition/(?:[^/]+/)+(feeds|data)/.*"), r"subtask/partition/\1/*"),
    (re.compile(r"^[^/]+/(journal|frozen|requests|deployments|checkpoints)/.*"), r"\1/*"),
)


@dataclass(frozen=True)
class Census:
    """Files at one age of the job. ``files``, ``sizes``: by kind of folder; sizes in bytes."""

    checkpoints: int
    files: Mapping[str, int]
    sizes: Mapping[str, int]
    figures: Mapping[str, float] = field(default_factory=dict)
    """Other measurements, by name."""

    @property
    def count(self) -> int:
        return sum(self.files.values())

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


def take(root: Path, checkpoints: int, figures: Mapping[str, float] | None = None) -> Census:
    """Take a census of a root on a disk, while other processes write and delete there."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            kind = kind_of(str(path.relative_to(root)))
            try:
                sizes[kind] += path.stat().st_size
            except FileNotFoundError:
                continue
            files[kind] += 1
    return Census(checkpoints, files, sizes, dict(figures or {}))


def kind_of(path: str) -> str:
    """Return the kind of folder. ``path``: of a file, relative to the root."""
    for pattern, to in _NAMES:
        path = pattern.sub(to, path)
    folder, _, name = path.rpartition("/")
    return folder or name


def table(taken: Iterable[Census]) -> str:
    """Format a table: a line for each kind of folder, a column for each age."""
    columns = list(taken)
    lines = [_line("checkpoints", [f"{column.checkpoints:,}" for column in columns])]
    for kind in sorted({kind for column in columns for kind in column.files}):
        lines.append(_line(kind, [str(column.files.get(kind, 0)) for column in columns]))
    lines.append(_line("files", [str(column.count) for column in columns]))
    lines.append(_line("KB", [f"{column.size / 1000:,.0f}" for column in columns]))
    for name in sorted({name for column in columns for name in column.figures}):
        lines.append(
            _line(name, [f"{column.figures[name]:.1f}" if name in column.figures else "" for column in columns])
        )
    return "\n".join(lines)


def _line(name: str, values: list[str]) -> str:
    return f"{name:34}" + "".join(f"{value:>10}" for value in values)
