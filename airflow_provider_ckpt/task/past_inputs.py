"""The entries that Spark's logs of a subtask's edges no longer need when an attempt begins (R7)."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.seen_files import log_offset
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.task.inputs import EdgeInput


def past_inputs(edges: Iterable[EdgeInput], last: Batch | None) -> dict[str, PastFiles]:
    """Return the past files of each source of the query.

    Args:
        edges: all edges of the subtask, when their feeds have begun and nothing more is fed.
        last: the last published batch that counts. Without one, nothing is past.
    """
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
    """Return whether the log was read as far as the query has read the edge.

    A shorter log lacks entries that the query has read.
    """
    return edge.log.position >= edge.read
