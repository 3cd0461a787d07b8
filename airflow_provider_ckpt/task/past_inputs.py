"""What the logs that Spark keeps of a subtask's edges need not name any more, as an attempt begins (R7)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.task.inputs import EdgeInput


def past_inputs(edges: Iterable[EdgeInput], last: Batch | None) -> dict[str, PastFiles]:
    """By source of the query. ``edges``: all of the subtask, when their feeds have begun and nothing more is fed;
    ``last``: the last published batch that counts, None if there is none: then nothing is past."""
    if last is None:
        return {}
    channels: dict[str, list[EdgeInput]] = {}
    for edge in edges:
        channels.setdefault(edge.edge.uid, []).append(edge)
    return {
        uid: PastFiles(log_offset(last.offsets.get(uid)), tuple(one.feed.folder for one in of_edge), _named(of_edge))
        for uid, of_edge in channels.items()
        if all(map(_is_read_on, of_edge))
    }


def _named(channels: Iterable[EdgeInput]) -> frozenset[str]:
    found: set[str] = set()
    for edge in channels:
        found |= edge.feed.may_name(record for _, record in edge.log.records() if isinstance(record, Batch))
    return frozenset(found)


def _is_read_on(edge: EdgeInput) -> bool:
    """Else the log, as it was read here, lacks entries of which the query has read something."""
    return edge.log.position >= edge.read
