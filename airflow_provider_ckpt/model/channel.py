"""Channels: the connections from producer subtasks to the consumer subtasks that read them, and their keys."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId


@dataclass(frozen=True)
class Channel:
    """The input of one consumer subtask from one producer subtask.

    ``key`` names the channel among the inputs of the consumer, also in snapshots and batches. The key is the edge's uid
    if the producing vertex has one subtask, else "<edge uid>/<number of the producer subtask>". The key
    always has the second form for a source with splits, because the source may get more subtasks.
    """

    edge: JobEdge
    producer: SubtaskId
    key: str


def pointwise_producers(consumer: int, producers: int, consumers: int) -> range:
    """Return the numbers of the producer subtasks that subtask ``consumer`` reads over a pointwise exchange.

    As in Flink, each subtask of the smaller vertex is connected to a range of the other vertex's subtasks.
    ``consumer`` counts from 0. ``producers`` and ``consumers`` are the parallelism of the two vertices.
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
    """Return (consumer subtask, its channel from ``producer``) for each subtask that reads ``producer``."""
    consumers = {name for edge in graph.outputs(producer.vertex) for name in graph.vertex(edge.consumer).subtasks}
    return tuple(
        (consumer, channel)
        for consumer in sorted(consumers)
        for channel in channels(graph, consumer)
        if channel.producer == producer
    )


def channel_key(edge: JobEdge, index: int, producer: JobVertex) -> str:
    return edge.uid if producer.parallelism == 1 and not producer.splits else f"{edge.uid}/{index:d}"
