"""A simulated Spark query that reads some of the available input in each batch."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.subtasklog.records import Batch


def offset_json(offset: int) -> str:
    """Return an offset in a file source's format: the number of the last item read, -1 for none."""
    return json.dumps({"logOffset": offset})


@dataclass
class Feed:
    """The files that the query may read from one edge, in order.

    Like the real feed, it resumes where the previous attempt stopped: ``base`` items were read by then. ``keys``: path
    -> channel that delivered it.
    """

    base: int
    paths: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.base + len(self.paths)

    def between(self, start: int, end: int) -> list[str]:
        return self.paths[max(0, start - self.base) : max(0, end - self.base)]


@dataclass
class ChannelFeed:
    """The part of an edge's feed that one channel delivers.

    The last entry that the previous attempt read was at position ``fed`` or before.
    """

    of: Feed
    key: str
    fed: int
    positions: dict[str, int] = field(default_factory=dict)

    def add(self, position: int, batch: Batch) -> None:
        if position <= self.fed:
            return
        for file in batch.files:
            self.of.paths.append(file.path)
            self.of.keys[file.path] = self.key
            self.positions[file.path] = position

    def consume(self, paths: Collection[str]) -> int | None:
        return max([self.positions.pop(path) for path in paths if path in self.positions], default=None)

    def has_unread(self) -> bool:
        return bool(self.positions)


@dataclass
class Source:
    """A source of one subtask, with numbers as rows. ``count``: None if it never ends."""

    uid: str
    count: int | None
    end: int = 0

    def between(self, start: int, end: int) -> list[str]:
        return [f"{self.uid}/{number}" for number in range(start, end)]


class Seen:
    """Spark's own log of a source, as :class:`SeenFiles` shows it."""

    def __init__(self, of: Feed | Source) -> None:
        self._of, self._read = of, 0

    def advance(self, offset: int) -> set[str]:
        start, self._read = self._read, max(self._read, offset + 1)
        return set(self._of.between(start, self._read))

    def skip_to(self, offset: int) -> None:
        self._read = max(self._read, offset + 1)


class Query:
    """A sequence of planned micro-batches. ``inputs``: uid -> feed or source.

    Inputs in ``without`` are left out and keep their offsets.
    """

    def __init__(self, inputs: dict[str, Feed | Source], last: Batch | None) -> None:
        self._inputs = inputs
        before = {} if last is None else last.offsets
        self.offsets = {uid: log_offset(before.get(uid)) + 1 for uid in inputs}
        self.is_running = False

    def plan(self, random: Random, without: frozenset[str]) -> dict[str, int]:
        """Return the end of the next batch for each input."""
        ends = dict(self.offsets)
        for uid, source in self._inputs.items():
            if uid in without:
                continue
            most = source.end if isinstance(source, Feed) else source.count
            if most is None:
                ends[uid] += random.randint(0, 2)
            else:
                ends[uid] = min(most, ends[uid] + random.randint(0, 3))
        return ends

    def read(self, uid: str, ends: dict[str, int]) -> list[str]:
        return self._inputs[uid].between(self.offsets[uid], ends[uid])
