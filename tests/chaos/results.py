"""The results of a batch job's vertices as its logs name them: existing, wanted and lost ones.

The splits that may be read again are derived from that, independently of the package.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ckpt.storage.layout import partition_path, subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_reader import TailingLogReader
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfData

SUBTASKS = {"left": 2, "right": 1, "clean": 1, "both": 1, "report": 1}
READERS = {"left": "clean", "right": "both", "clean": "both", "both": "report"}
SPLITS = {"left": [f"l{n}" for n in range(6)], "right": [f"r{n}" for n in range(3)]}
JOB_ID = "parts"


@dataclass(frozen=True)
class Result:
    """A file of a published entry. ``splits``: all splits of a source that the entry completes."""

    vertex: str
    splits: tuple[str, ...]
    path: Path
    size: int

    @property
    def is_lost(self) -> bool:
        return not self.path.exists() or self.path.stat().st_size != self.size


class Results:
    """The results at the time of its creation."""

    def __init__(self, storage: Storage, root: Path) -> None:
        self.files: list[Result] = []
        self.published: dict[str, set[str]] = defaultdict(set)
        self._ended: set[str] = set()
        for vertex, count in SUBTASKS.items():
            ended = [self._read(storage, root, vertex, number) for number in range(count)]
            self._ended |= {vertex} if all(ended) else set()

    def _read(self, storage: Storage, root: Path, vertex: str, number: int) -> bool:
        records = [
            record for _, record in TailingLogReader(storage, subtask_log_path(JOB_ID, vertex, number)).records()
        ]
        partition = root / partition_path(JOB_ID, vertex, number)
        for batch in [record for record in records if isinstance(record, Batch)]:
            self.published[vertex].update(batch.splits)
            self.files += [Result(vertex, batch.splits, partition / file.path, file.size) for file in batch.files]
        return any(isinstance(record, EndOfData) for record in records)

    def intact(self, source: str) -> set[str]:
        """Return the splits that are published and not lost."""
        return self.published[source] - self._lost(source)

    def _lost(self, source: str) -> set[str]:
        return {split for file in self.files if file.vertex == source and file.is_lost for split in file.splits}

    def is_wanted(self, vertex: str) -> bool:
        """Return whether the vertex's reader has not ended or must run again."""
        reader = READERS.get(vertex)
        return reader is not None and (reader not in self._ended or self._runs_again(reader))

    def _runs_again(self, vertex: str) -> bool:
        return self.is_wanted(vertex) and any(file.is_lost for file in self.files if file.vertex == vertex)

    def to_read(self, source: str) -> set[str]:
        """Return the splits that the next run may read: unpublished ones, and lost ones that are wanted."""
        again = self._lost(source) if self.is_wanted(source) else set[str]()
        return set(SPLITS[source]) - self.published[source] | again


def lose(results: Results, rng: random.Random, ways: Sequence[str] = ("gone", "emptied")) -> list[str]:
    """Delete or empty some files: wanted ones or any. Return a description of each."""
    descriptions = []
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        there = [file for file in results.files if not file.is_lost]
        wanted = [file for file in there if results.is_wanted(file.vertex)]
        chosen = rng.choice((rng.choice([wanted, there]) or there) or [None])
        if chosen is None:
            break
        how = rng.choice(ways)
        chosen.path.unlink() if how == "gone" else chosen.path.write_bytes(b"")
        descriptions.append(
            f"{chosen.vertex} {', '.join(chosen.splits)} {how}{'' if chosen in wanted else ', not wanted'}"
        )
    return descriptions


def readings(base: Path) -> list[tuple[int, str, str]]:
    """Return (process, source, split) in reading order.

    Each planner first calls every source's function with the first remaining split. These calls do not count.
    """
    path, planned, splits_read = base / "readings.txt", set[tuple[int, str]](), []
    for line in path.read_text().splitlines() if path.exists() else []:
        process, source, split = line.split()
        if (int(process), source) in planned:
            splits_read.append((int(process), source, split))
        planned.add((int(process), source))
    return splits_read
