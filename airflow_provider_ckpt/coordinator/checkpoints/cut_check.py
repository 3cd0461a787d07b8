"""The check that a checkpoint is a consistent cut."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.coordinator.checkpoints.pending_checkpoint import PendingCheckpoint
from airflow_provider_ckpt.coordinator.errors import CutViolatedError
from airflow_provider_ckpt.coordinator.state.running_graph import RunningGraph
from airflow_provider_ckpt.model.channel import channel_key
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId


class CutCheck:
    """The comparison of each consumer's input positions with its producers' positions at their barriers (R19).

    ``Snapshot.inputs`` is keyed as :class:`Channel` describes. The cost is one look-up per entry of a snapshot.
    """

    def __init__(self, graph: RunningGraph) -> None:
        self._graph = graph
        self._of = graph.now
        self._producer = _producers(graph.now)

    def check(self, pending: PendingCheckpoint) -> None:
        """Check on every edge that the consumer's position is not above the producer's.

        A producer that is finished in this checkpoint publishes nothing more, so it limits no consumer.

        Raises CutViolatedError if a consumer has read too far.
        """
        if self._of is not self._graph.now:
            self._of, self._producer = self._graph.now, _producers(self._graph.now)
        for edge, producer, consumer, position in self._reads(pending):
            snapshot = pending.acknowledged.get(producer)
            if snapshot is not None and position > snapshot.position:
                raise CutViolatedError(
                    checkpoint=pending.checkpoint,
                    edge=edge.uid,
                    consumer=consumer,
                    read=position,
                    producer=producer,
                    published=snapshot.position,
                )

    def _reads(self, pending: PendingCheckpoint) -> Iterator[tuple[JobEdge, SubtaskId, SubtaskId, int]]:
        for consumer, snapshot in pending.acknowledged.items():
            for key, position in snapshot.inputs.items():
                known = self._producer.get(key)
                if known is not None:
                    yield known[0], known[1], consumer, position


def _producers(graph: JobGraph) -> dict[str, tuple[JobEdge, SubtaskId]]:
    """Return the edge and the producer of each channel, by the channel's key."""
    found: dict[str, tuple[JobEdge, SubtaskId]] = {}
    for edge in graph.edges:
        vertex = graph.vertex(edge.producer)
        for producer in vertex.subtasks:
            found[channel_key(edge, producer.number, vertex)] = (edge, producer)
    return found
