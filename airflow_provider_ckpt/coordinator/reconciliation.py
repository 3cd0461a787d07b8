"""The subtasks of a resumed bounded job that must run again, because results that are still needed are gone (FLIP-383).

In BATCH mode a subtask at its end of data does not run again, wherever its driver is, because its result partition is
in the storage. It runs again only if its result is needed and a part of it is gone. A result is needed by a subtask
that is not at its end, or that runs again itself. A result that must outlive the job (persist=True) is always needed. A
consumer at its end has read all that it needed.

Flink also restarts the consumers of a subtask that runs again, because its rows may differ. Here the input of a bounded
source is frozen. If a function gives other rows each time, its consumers may read two different results.

The module has no storage and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass(frozen=True)
class LostResult:
    """A result with missing files that must be produced again.

    A source with splits reads the splits of these entries again. Any other vertex reads everything again.

    Attributes:
        producer: the subtask whose log names files that are gone.
        positions: the positions of these entries in its log.
        consumer: the subtask that must read them; the producer itself if they must outlive the job.
    """

    producer: SubtaskId
    positions: tuple[int, ...]
    consumer: SubtaskId


def lost_results(
    graph: JobGraph, ended: Collection[SubtaskId], gone: Callable[[SubtaskId], Iterable[int]]
) -> tuple[LostResult, ...]:
    """Return the lost results that must be produced again.

    The search goes from the sinks upwards, because a lost result is needed only if its reader runs.

    Args:
        graph: the job's graph.
        ended: the subtasks at their end of data.
        gone: returns the positions of the entries in a subtask's log of which a file is gone. It is called at most once
            for each subtask whose result is needed, and for no other.
    """
    run, found = set(graph.subtasks) - set(ended), list[LostResult]()
    for vertex in reversed(graph.vertices):
        for subtask in vertex.subtasks:
            if not vertex.splits and subtask in run:
                continue  # everything that it has published is void (R23)
            kept = subtask if vertex.persist else None
            wanted = next((consumer for consumer, _ in readers(graph, subtask) if consumer in run), kept)
            positions = () if wanted is None else tuple(sorted(gone(subtask)))
            if wanted is not None and positions:
                run.add(subtask)
                found.append(LostResult(subtask, positions, wanted))
    return tuple(found)
