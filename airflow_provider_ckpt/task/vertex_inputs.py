"""The inputs of one running vertex: their read positions, and which of them have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.graph import JobEdge
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.seen_files import SeenFiles, log_offset
from airflow_provider_ckpt.subtasklog.input_gate import FeedBatch, GateAction, InputGate, InputPassed
from airflow_provider_ckpt.subtasklog.log_reader import LogReader
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets, BoundedWait
from airflow_provider_ckpt.task.errors import SourceFilesGoneError


@dataclass
class EdgeInput:
    """An input edge: the producer's log, the feed that the query reads, and the positions in the log."""

    edge: JobEdge
    log: LogReader
    feed: ChannelFeed
    offered: int = 0
    """Position of the next entry of the producer's log to offer to the gate."""
    read: int = 0
    """Exclusive end position of the log entries that published batches have read, completely or in part."""
    passed: int = 0
    ended: bool = False
    source: str | None = None
    """The query's source that reads this channel and others; None if a source reads this channel alone."""

    def at_end(self) -> bool:
        return self.ended and not self.feed.has_unread()

    def position(self) -> int:
        """Return the input position for a snapshot.

        Entries that passed the gate count as read if no fed data is unread.
        """
        return self.read if self.feed.has_unread() else max(self.read, self.passed)


@dataclass
class BoundedInput:
    """A bounded file source that the query reads directly, with the unread files of its frozen list."""

    uid: str
    remaining: set[str]
    frozen: frozenset[str]
    late: set[str] = field(default_factory=set)
    """Normal paths of files that the source read although the frozen list lacks them."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Normal path → path in the form that users write."""
    _wait: BoundedWait = field(default_factory=BoundedWait)

    def read(self, paths: set[str]) -> None:
        self.remaining -= paths
        self.late |= paths - self.frozen

    def at_end(self) -> bool:
        return not self.remaining

    @property
    def left(self) -> int:
        """Number of files of the frozen list that were not read."""
        return len(self.remaining)

    def is_stuck(self, now: float) -> bool:
        """Return True if it is time to check that the remaining files still exist. Callers may poll this."""
        return self._wait.is_due(len(self.remaining), now)

    def refuse_missing(self, existing: Iterable[str]) -> None:
        """Refuse to continue if a remaining file is not among the ``existing`` normal paths.

        Raises SourceFilesGoneError.
        """
        missing_files = sorted(self.remaining - set(existing))
        if missing_files:
            raise SourceFilesGoneError(
                uid=self.uid, count=len(missing_files), path=self.shown.get(missing_files[0], missing_files[0])
            )


class Inputs:
    """The edges (by channel) and bounded sources of a vertex.

    Progress is read from the query's Spark folder: from the logs of its file sources, and the offsets of its batches.
    """

    def __init__(
        self,
        edges: Mapping[str, EdgeInput],
        bounded: Mapping[str, BoundedInput | BoundedOffsets],
        gate: InputGate,
        seen: Callable[[str], SeenFiles],
    ) -> None:
        self.edges = dict(edges)
        self.bounded = dict(bounded)
        self.bounded_files = {uid: source for uid, source in bounded.items() if isinstance(source, BoundedInput)}
        self.gate = gate
        self._new_seen = seen
        self._channels: dict[str, list[str]] = {}
        """Source of the query → the channels that it reads."""
        for key, edge in self.edges.items():
            self._channels.setdefault(edge.source or key, []).append(key)
        self._seen = {uid: seen(uid) for uid in self.names}
        self._publishing: set[str] = set()
        """Channels with data in a batch that is committed but not published."""

    def add_edges(self, edges: Mapping[str, EdgeInput]) -> None:
        """Add channels to the sources of the query. The caller holds the lock, and no query runs."""
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
        """The query's sources that have an end: bounded sources, and sources that read edges."""
        return frozenset({*self._channels, *self.bounded})

    def advance(self, offsets: Mapping[str, str]) -> None:
        """Record the files that a committed batch with these ``offsets`` (source → Spark's offset JSON) has read.

        An aligned barrier treats the files as unread until :meth:`published` is called, because a snapshot would not
        include them.
        """
        for uid, keys in self._channels.items():
            paths = self._seen[uid].advance(log_offset(offsets.get(uid)))
            for key in keys:
                highest = self.edges[key].feed.consume(paths)
                if highest is not None:
                    self.edges[key].read = max(self.edges[key].read, highest + 1)
                    self._publishing.add(key)
        for uid, source in self.bounded.items():
            if isinstance(source, BoundedOffsets):
                source.read(offsets.get(uid))
            else:
                source.read(self._seen[uid].advance(log_offset(offsets.get(uid))))
        for uid in offsets.keys() - self.names:
            self._log_of(uid).skip_to(log_offset(offsets[uid]))  # a live source needs only its next batch

    def planned(self, offsets: Mapping[str, str]) -> dict[str, list[str]]:
        """Return source or edge → files that a batch up to ``offsets`` reads after the last :meth:`advance`."""
        planned = {uid: self._log_of(uid).planned(log_offset(offset)) for uid, offset in offsets.items()}
        return {uid: paths for uid, paths in planned.items() if paths}

    def refuse_damaged(self, planned: Mapping[str, list[str]]) -> None:
        """Refuse to read damaged files of edges. ``planned`` maps source or edge → normal paths of the files to read.

        Raises PartitionFilesDamagedError.
        """
        for uid, paths in planned.items():
            for key in self._channels.get(uid, ()):
                self.edges[key].feed.refuse_damaged(paths)

    def has_grown(self) -> bool:
        """Return True if the next attempt should shorten Spark's log of an edge; see :meth:`SeenFiles.has_grown`.

        Logs of sources are never shortened, because the users' files may remain for ever.
        """
        grown = [uid for uid in self._channels if self._seen[uid].has_grown()]  # call all: each returns True only once
        return bool(grown)

    def _log_of(self, uid: str) -> SeenFiles:
        if uid not in self._seen:
            self._seen[uid] = self._new_seen(uid)
        return self._seen[uid]

    def published(self) -> None:
        """Record that the batch of the last :meth:`advance` is in the log."""
        self._publishing.clear()

    def pull(self, now: float) -> list[GateAction]:
        """Offer new entries of the producers' logs to the gate. Return the due actions in order."""
        for uid, edge in self.edges.items():
            for number, record in edge.log.records(edge.offered):
                self.gate.offer(uid, number, record)
                edge.offered = number + 1
        unread = {uid: edge.feed.has_unread() or uid in self._publishing for uid, edge in self.edges.items()}
        return self.gate.poll(now, unread)

    def carry_out(self, action: GateAction) -> None:
        if isinstance(action, FeedBatch):
            self.edges[action.edge].feed.add(action.position, action.batch)
        elif isinstance(action, InputPassed):
            edge = self.edges[action.edge]
            edge.passed, edge.ended = action.position, action.ended

    def positions(self) -> dict[str, int]:
        return {uid: edge.position() for uid, edge in self.edges.items()}

    def unread_count(self) -> int:
        """Return the number of entries in the producers' logs that were offered to the gate but not read."""
        return sum(edge.offered - edge.position() for edge in self.edges.values())

    def ended(self) -> frozenset[str]:
        """Return the sources and edges that published batches have read to their end."""
        edges = {uid for uid, keys in self._channels.items() if all(self.edges[key].at_end() for key in keys)}
        return frozenset(edges | {uid for uid, source in self.bounded.items() if source.at_end()})


def past_inputs(edges: Iterable[EdgeInput], last: Batch | None) -> dict[str, PastFiles]:
    """Return source of the query → its past files: they were read, and Spark's logs of edges no longer need them (R7).

    Args:
        edges: all edges of the subtask. Their feeds have begun, and nothing more is fed.
        last: the last published batch that counts. None means that no file is past.
    """
    if last is None:
        return {}
    channels: dict[str, list[EdgeInput]] = {}
    for edge in edges:
        channels.setdefault(edge.edge.uid, []).append(edge)
    return {
        uid: PastFiles(
            log_offset(last.offsets.get(uid)),
            tuple(edge.feed.folder for edge in channel_edges),
            _named_files(channel_edges),
        )
        for uid, channel_edges in channels.items()
        if all(map(_is_read_far_enough, channel_edges))
    }


def _named_files(channels: Iterable[EdgeInput]) -> frozenset[str]:
    names: set[str] = set()
    for edge in channels:
        names |= edge.feed.possible_paths(record for _, record in edge.log.records() if isinstance(record, Batch))
    return frozenset(names)


def _is_read_far_enough(edge: EdgeInput) -> bool:
    return edge.log.position >= edge.read
