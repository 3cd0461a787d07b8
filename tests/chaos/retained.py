"""Files that remain of a FINISHED job: its output, and under the root the record of its history."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests
from tests.chaos.released import Row, read_rows
from tests.support.books import books

SINKS = ("raw", "all", "out")
LEDGER = re.compile(r".*/(\d{8}|columns)\.json")
"""Entries of a sink's logs, and the record of its columns. The next start removes files that a killed write leaves."""
METADATA = "parts/checkpoints/chk-1/_metadata"
RETAINED = re.compile(
    r"ckpt-root\.json|parts/(overview/current\.json|journal/\d{8}\.json|journal/head\.json|checkpoints/chk-\d+/_metadata"
    r"|frozen/(left|right)\.json|vertices/[a-z]+/\d/log/(\d{8}|head)\.json"
    r"|deployments/\d{4}/(master-\d{4}|worker-[0-9a-f]{8}(-\d{4})?)\.json)"  # the last outbox of each process
)


class Ended(Protocol):
    """An ended job of any suite."""

    @property
    def base(self) -> Path: ...
    @property
    def root(self) -> Path: ...


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run.

    ``rows``: sink -> row -> number of releases. ``files``: under the root, without their numbers.
    """

    rows: dict[str, Counter[str]]
    files: frozenset[str]


def outcome(world: Ended) -> Outcome:
    rows = {sink: Counter(map(str, _released(world, sink))) for sink in SINKS}
    for sink, counted in rows.items():
        twice = [row for row, times in counted.items() if times > 1]
        assert counted, f"{sink}: nothing was released"
        assert not twice, f"{sink}: released more than once: {twice[:5]}"
    return Outcome(rows, frozenset(_unnumbered(path) for path in _files(world.root)))


def check_retained(world: Ended, files: frozenset[str]) -> None:
    """Check that only the journal, the logs, the frozen lists and the checkpoints' metadata are left.

    ``files``: files of a run without failures. A missing portable copy of a checkpoint is allowed, because no start
    reads it. A sink has only its output and its manifests.
    """
    left = [path for path in _files(world.root) if not RETAINED.fullmatch(path)]
    assert not left, f"left under the root: {left[:10]}"
    missing = files - {METADATA} - {_unnumbered(path) for path in _files(world.root)}
    assert not missing, f"not there: {missing}"
    for sink in SINKS:
        visible = set(_files(world.base / sink))
        released = {file.path for manifest in _manifests(world, sink) for file in manifest.files}
        assert visible == released, f"{sink}: left, or gone: {sorted(visible ^ released)[:10]}"
        leftovers = [path for path in _files(books(world.base / sink)) if not LEDGER.fullmatch(path)]
        assert not leftovers, f"{sink}: left next to it: {leftovers[:10]}"


def _manifests(world: Ended, sink: str) -> list[Manifest]:
    return read_manifests(str(world.base / sink), "parts", sink)


def _released(world: Ended, sink: str) -> list[Row]:
    files = [file.path for manifest in _manifests(world, sink) for file in manifest.files]
    return [row for path in files for row in read_rows(world.base / sink / path)]


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]


def _unnumbered(path: str) -> str:
    return re.sub(r"\d{2,}", "N", path)
