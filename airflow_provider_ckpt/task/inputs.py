"""The inputs of one running vertex: what it has read, and which of them have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.graph import JobEdge
from airflow_provider_ckpt.partitions.input_gate import Feed, GateAction, InputGate, Passed
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, log_offset
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.errors import SourceFilesGoneError
from airflow_provider_ckpt.task.lookout import Lookout


@dataclass
class EdgeInput:
    """An input edge: the producer's log, the feed our query reads, and how far each is."""

    edge: JobEdge
    log: LogReader
    feed: ChannelFeed
    offered: int = 0
    """Next position of the producer's log to offer to the gate."""
    read: int = 0
    """Position up to which (exclusive) published batches have touched entries."""
    passed: int = 0
    ended: bool = False
    source: str | None = None
    """The source of the query that reads it, beside other channels of the edge; None: one of its own, by its key."""

    def at_end(self) -> bool:
        return self.ended and not self.feed.has_unread()

    def position(self) -> int:
        """The input position of a snapshot: nothing unread means that all that was passed was read."""
        return self.read if self.feed.has_unread() else max(self.read, self.passed)


@dataclass
class BoundedInput:
    """An inline bounded file source: what is left of its frozen list."""

    uid: str
    remaining: set[str]
    frozen: frozenset[str]
    late: set[str] = field(default_factory=set)
    """Files it read though they are not in the frozen list."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Normal path -> the path for a person."""
    _lookout: Lookout = field(default_factory=Lookout)

    def read(self, paths: set[str]) -> None:
        self.remaining -= paths
        self.late |= paths - self.frozen

    def at_end(self) -> bool:
        return not self.remaining

    def is_stuck(self, now: float) -> bool:
        """Whether to see if the remaining files still exist; asked all the time."""
        return self._lookout.is_due(len(self.remaining), now)

    def refuse_missing(self, existing: Iterable[str]) -> None:
        """Raises SourceFilesGoneError if a remaining file is not among the normal paths given."""
        gone = sorted(self.remaining - set(existing))
        if gone:
            raise SourceFilesGoneError(uid=self.uid, count=len(gone), path=self.shown.get(gone[0], gone[0]))


class Inputs:
    """Tracks a vertex's edges (by channel) and bounded sources by what Spark keeps of them in its folder: the logs of
    file sources, and the offsets of batches."""

    def __init__(
        self,
        edges: Mapping[str, EdgeInput],
        bounded: Mapping[str, BoundedInput | BoundedOffsets],
        gate: InputGate,
        seen: Callable[[str], SeenFiles],
    ) -> None:
        self.edges = dict(edges)
        self.bounded = dict(bounded)
        self.bounded_files = {uid: one for uid, one in bounded.items() if isinstance(one, BoundedInput)}
        self.gate = gate
        self._new_seen = seen
        self._channels: dict[str, list[str]] = {}
        """Source of the query -> the channels that it reads."""
        for key, edge in self.edges.items():
            self._channels.setdefault(edge.source or key, []).append(key)
        self._seen = {uid: seen(uid) for uid in self.names}
        self._publishing: set[str] = set()
        """Channels that the batch which is committed but not yet published has read."""

    def read_also(self, edges: Mapping[str, EdgeInput]) -> None:
        """More channels, of sources that the query has. Those that are read already go on as they are. The caller holds
        the lock, and no query runs."""
        for key, edge in edges.items():
            if key not in self.edges:
                self.edges[key] = edge
                self._channels.setdefault(edge.source or key, []).append(key)
                self.gate.add(key)

    @property
    def edge_sources(self) -> frozenset[str]:
        """The sources of the query that read edges."""
        return frozenset(self._channels)

    @property
    def names(self) -> frozenset[str]:
        """The sources of the query whose end shows in what is published."""
        return frozenset({*self._channels, *self.bounded})

    def advance(self, offsets: Mapping[str, str]) -> None:
        """A batch with these source offsets was committed: take note of the files it read. Until
        :meth:`published` is called they count as unread for an aligned barrier: a snapshot would leave them out."""
        for uid, keys in self._channels.items():
            paths = self._seen[uid].advance(log_offset(offsets.get(uid)))
            for key in keys:
                highest = self.edges[key].feed.consumed(paths)
                if highest is not None:
                    self.edges[key].read = max(self.edges[key].read, highest + 1)
                    self._publishing.add(key)
        for uid, source in self.bounded.items():
            if isinstance(source, BoundedOffsets):
                source.read(offsets.get(uid))
            else:
                source.read(self._seen[uid].advance(log_offset(offsets.get(uid))))
        for uid in offsets.keys() - self.names:
            self._log_of(uid).skip_to(log_offset(offsets[uid]))  # of a live source only the next batch matters

    def planned(self, offsets: Mapping[str, str]) -> dict[str, list[str]]:
        """Source or edge -> URIs of the files that a batch with these end offsets takes beyond the last one given to
        :meth:`advance`. Those that are no files are left out."""
        planned = {uid: self._log_of(uid).planned(log_offset(offset)) for uid, offset in offsets.items()}
        return {uid: paths for uid, paths in planned.items() if paths}

    def refuse_damaged(self, planned: Mapping[str, list[str]]) -> None:
        """``planned``: source or edge -> normal paths. Raises PartitionFilesDamagedError for those of edges."""
        for uid, paths in planned.items():
            for key in self._channels.get(uid, ()):
                self.edges[key].feed.refuse_damaged(paths)

    def has_grown(self) -> bool:
        """Whether Spark's log of an edge is to be shortened, which the next attempt does; see
        :meth:`SeenFiles.has_grown`. That of a source names files of a user's, which may be there for ever."""
        grown = [uid for uid in self._channels if self._seen[uid].has_grown()]  # each is asked: it says so once
        return bool(grown)

    def _log_of(self, uid: str) -> SeenFiles:
        if uid not in self._seen:
            self._seen[uid] = self._new_seen(uid)
        return self._seen[uid]

    def published(self) -> None:
        """The batch given to :meth:`advance` is in the log."""
        self._publishing.clear()

    def pull(self, now: float) -> list[GateAction]:
        """Offer what the producers appended to the gate; returns the actions that are due, in order."""
        for uid, edge in self.edges.items():
            for number, record in edge.log.records(edge.offered):
                self.gate.offer(uid, number, record)
                edge.offered = number + 1
        unread = {uid: edge.feed.has_unread() or uid in self._publishing for uid, edge in self.edges.items()}
        return self.gate.poll(now, unread)

    def carry_out(self, action: GateAction) -> None:
        if isinstance(action, Feed):
            self.edges[action.edge].feed.add(action.position, action.batch)
        elif isinstance(action, Passed):
            edge = self.edges[action.edge]
            edge.passed, edge.ended = action.position, action.ended

    def positions(self) -> dict[str, int]:
        return {uid: edge.position() for uid, edge in self.edges.items()}

    def behind(self) -> int:
        """Entries of the producers' logs that were found and not read."""
        return sum(edge.offered - edge.position() for edge in self.edges.values())

    def ended(self) -> frozenset[str]:
        """Sources and edges that published batches have read to their end."""
        edges = {uid for uid, keys in self._channels.items() if all(self.edges[key].at_end() for key in keys)}
        return frozenset(edges | {uid for uid, source in self.bounded.items() if source.at_end()})
