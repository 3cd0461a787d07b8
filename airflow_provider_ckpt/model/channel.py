"""Channels: the producer subtasks that a consumer subtask reads, and their names."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId


@dataclass(frozen=True)
class Channel:
    """The input of one consumer subtask from one producer subtask.

    ``key`` is its name among the inputs of the consumer, also in snapshots and batches. It is the edge's uid if the
    producer has one subtask, else "<edge uid>/<producer index>". A source with splits always has the second form,
    because the number of its subtasks may change.
    """

    edge: JobEdge
    producer: SubtaskId
    key: str


def pointwise_producers(consumer: int, producers: int, consumers: int) -> range:
    """Return the numbers of the producer subtasks that subtask ``consumer`` reads over a pointwise exchange.

    As in Flink, each subtask of the smaller side is connected to a range of the larger side. ``producers`` and
    ``consumers`` are the numbers of subtasks of both sides.
    """
    if producers < consumers:
        only = consumer * producers // consumers
        return range(only, only + 1)
    return range(consumer * producers // consumers, (consumer + 1) * producers // consumers)


def channels(graph: JobGraph, consumer: SubtaskId) -> tuple[Channel, ...]:
    """Return the inputs of a subtask: edges in the order of the graph, producers by number."""
    width = graph.vertex(consumer.vertex).parallelism
    inputs: list[Channel] = []
    for edge in graph.inputs(consumer.vertex):
        producer = graph.vertex(edge.producer)
        producers = producer.subtasks
        run = range(len(producers))
        if edge.exchange == "pointwise":
            run = pointwise_producers(consumer.number, len(producers), width)
        inputs += [Channel(edge, producers[i], channel_key(edge, i, producer)) for i in run]
    return tuple(inputs)


def readers(graph: JobGraph, producer: SubtaskId) -> tuple[tuple[SubtaskId, Channel], ...]:
    """Return (consumer subtask, its channel) for all consumers of the producer subtask."""
    consumers = {name for edge in graph.outputs(producer.vertex) for name in graph.vertex(edge.consumer).subtasks}
    return tuple(
        (consumer, channel)
        for consumer in sorted(consumers)
        for channel in channels(graph, consumer)
        if channel.producer == producer
    )


def channel_key(edge: JobEdge, index: int, producer: JobVertex) -> str:
    return edge.uid if producer.parallelism == 1 and not producer.splits else f"{edge.uid}/{index:d}"
