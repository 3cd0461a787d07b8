"""What is run again of a bounded job that somebody goes on with, because results are gone that are still to be read
(FLIP-383). Pure: no storage, no clock.

In BATCH a subtask that is at its end of data is not run again, wherever its driver is: its result partition is in the
storage. It is run again if its result is wanted and some of it is gone; it is wanted by a subtask that is not at its
end, or that is run again itself, and always if it is to outlive the job (persist=True). Nothing else is: a consumer at
its end has read all that it wanted. (Flink runs the consumers of what is run again once more, too, as it may give other
rows. Here what a bounded source reads is frozen; a function that gives other rows each time may be seen twice by its
consumers, differently.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from airflow_provider_ckpt.model.channel import readers
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId


@dataclass(frozen=True)
class LostResult:
    """Entries of the log of ``producer`` at these ``positions`` name files that are gone, and ``consumer`` is to read
    them; the producer itself: they are to outlive the job. Of a source with splits what these entries are of is read
    again, of any other vertex all."""

    producer: SubtaskId
    positions: tuple[int, ...]
    consumer: SubtaskId


def lost_results(
    graph: JobGraph, ended: Collection[SubtaskId], gone: Callable[[SubtaskId], Iterable[int]]
) -> tuple[LostResult, ...]:
    """From the sinks upwards, as a result that is gone is wanted only if somebody runs who reads it.

    ``ended``: the subtasks at their end of data. ``gone``: the positions of those entries in a subtask's log of which a
    file is gone; it is asked for each subtask at most once, and of no other than is wanted.
    """
    run, found = set(graph.subtasks) - set(ended), list[LostResult]()
    for vertex in reversed(graph.vertices):
        for subtask in vertex.subtasks:
            if not vertex.splits and subtask in run:
                continue  # all that it has published is void (R23)
            kept = subtask if vertex.persist else None
            wanted = next((consumer for consumer, _ in readers(graph, subtask) if consumer in run), kept)
            positions = () if wanted is None else tuple(sorted(gone(subtask)))
            if wanted is not None and positions:
                run.add(subtask)
                found.append(LostResult(subtask, positions, wanted))
    return tuple(found)
