"""Topics of a Kafka source, and the frozen end of a bounded Kafka source, which all attempts use (R11)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.kafka.admin import KafkaAdmin, Topic
from airflow_provider_ckpt.spark.query.kafka.errors import KafkaTopicMissingError
from airflow_provider_ckpt.spark.query.kafka.kafka_options import (
    EARLIEST,
    LATEST,
    SELECTING,
    KafkaRange,
    TopicPartition,
    of_options,
    read_range,
)
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets, FrozenPartition


def fetch_topics(
    spark: SparkSession, uid: str, location: str, options: Mapping[str, str], *, bounded: bool
) -> dict[str, str]:
    """Return topic name -> topic id, for the topics that a source reads.

    A topic that was deleted and created again has another id. Topics without an id are left out. For a live source with
    a pattern the result is empty, because topics may be created later.

    Raises KafkaTopicMissingError, and what :class:`KafkaAdmin` raises.
    """
    source_options = of_options(options)
    selection = read_range(uid, location, {key: source_options[key] for key in SELECTING if key in source_options})
    with KafkaAdmin(spark, uid, location, options) as admin:
        if selection.pattern is not None and not bounded:
            return {}
        topics = _topics(admin, selection, uid, location, options)
    return {name: topic.id for name, topic in topics.items() if topic.id}


def fetch_offsets(spark: SparkSession, uid: str, location: str, options: Mapping[str, str]) -> FrozenOffsets:
    """Return the current start and end of each partition that the options of a bounded source select.

    Raises UnfitSourceError, KafkaTopicMissingError, and what :class:`KafkaAdmin` raises.
    """
    selection = read_range(uid, location, options)
    with KafkaAdmin(spark, uid, location, options) as admin:
        topics = _topics(admin, selection, uid, location, options)
        all_partitions = {(topic, number) for topic, description in topics.items() for number in description.partitions}
        chosen = sorted(all_partitions if selection.partitions is None else selection.partitions)
        begins, ends = admin.offsets(chosen, "earliest"), admin.offsets(chosen, "latest")
    starts = _resolved(uid, location, "startingOffsets", selection.start, EARLIEST, begins)
    until = _resolved(uid, location, "endingOffsets", selection.end, LATEST, ends)
    for (topic, number), start in starts.items():
        begin, end = begins[topic, number], ends[topic, number]
        if not begin <= start <= end:
            raise UnfitSourceError(
                "source {uid!r} ({location}) must be read from offset {start} of {topic}, partition {partition}, "
                "which holds {begin} to {end}: set another start in startingOffsets",
                uid=uid,
                location=location,
                topic=topic,
                partition=number,
                start=start,
                begin=begin,
                end=end,
            )
        if (reason := _why_no_end(until[topic, number], start, end)) is not None:
            value, reason = until[topic, number], f"{topic}, partition {number}, {reason}"
            raise UnfitSourceError(uid=uid, location=location, key="endingOffsets", value=value, why=reason)
    partitions = tuple(FrozenPartition(*partition, starts[partition], until[partition]) for partition in chosen)
    return FrozenOffsets(uid, partitions)


def recreated_topic(topics: Mapping[str, str], recorded: Mapping[str, str]) -> str | None:
    """Return a sentence about the first topic whose id has changed; None if no id has. Both mappings: topic -> id."""
    recreated = sorted(name for name in topics.keys() & recorded.keys() if topics[name] != recorded[name])
    return f"Topic {recreated[0]} was deleted and made again." if recreated else None


def why_endless(
    spark: SparkSession,
    uid: str,
    location: str,
    options: Mapping[str, str],
    recorded: Mapping[str, str],
    remaining: Mapping[TopicPartition, int],
) -> str | None:
    """Return why the source can never read a partition up to its frozen end; None if it can read all partitions.

    If a topic was recreated or its log was truncated, Spark silently waits for rows. Rows of open transactions count as
    present, because the end may have been frozen with another isolation level.

    Args:
        recorded: topic name -> recorded id.
        remaining: partition -> frozen end, for partitions that have not reached it.

    Raises what :class:`KafkaAdmin` raises.
    """
    plain = {key: value for key, value in options.items() if key.lower() != "kafka.isolation.level"}
    with KafkaAdmin(spark, uid, location, plain) as admin:
        for topic in sorted({topic for topic, _ in remaining}):
            number, end = min((number, end) for (name, number), end in remaining.items() if name == topic)
            expectation = f"Partition {number} of it was to be read up to offset {end}."
            try:
                current_topic = admin.topics([topic])[topic]
            except KafkaTopicMissingError:
                return f"Topic {topic} is gone. {expectation}"
            if current_topic.id and (reason := recreated_topic({topic: current_topic.id}, recorded)) is not None:
                return f"{reason} {expectation}"
        ends = admin.offsets(sorted(remaining), "latest")
    for (topic, number), end in sorted(remaining.items()):
        if ends[topic, number] < end:
            current_end = ends[topic, number]
            return f"Partition {number} of topic {topic} was to be read up to offset {end}, and ends at {current_end}."
    return None


def _why_no_end(limit: int, start: int, end: int) -> str | None:
    """Return why ``limit`` cannot be the end of a partition; None if it can.

    It must not be before the start, where nothing would be read, nor after the current end of the partition.

    Args:
        limit: the end in the options.
        start: the offset at which the source begins.
        end: the current end of the partition.
    """
    if limit > end:
        return f"ends at {end}: the source could not end before more rows arrive"
    if limit < start:
        return f"would be read from {start} on, and such an end reads nothing: to read nothing, end at {start}"
    return None


def only_frozen(frame: DataFrame, frozen: FrozenOffsets) -> DataFrame:
    """Return the rows of ``frame`` before the frozen end. Spark's streaming reader has no option for an end."""
    is_kept = F.lit(False)
    for topic, partitions in frozen.by_topic().items():
        ends = {partition.partition: partition.end for partition in partitions}
        by_number = F.array(*(F.lit(ends.get(number, 0)).cast("long") for number in range(max(ends) + 1)))
        is_before = F.col("offset") < F.get(by_number, F.col("partition"))
        is_kept = is_kept | ((F.col("topic") == topic) & is_before)
    return frame.where(is_kept)


def _topics(
    admin: KafkaAdmin, selection: KafkaRange, uid: str, location: str, options: Mapping[str, str]
) -> dict[str, Topic]:
    names = selection.topics if selection.pattern is None else admin.names(selection.pattern)
    if not names:
        topic = f"topics of the pattern {selection.pattern}"
        servers = of_options(options).get("kafka.bootstrap.servers", "")
        raise KafkaTopicMissingError(uid=uid, location=location, topic=topic, servers=servers)
    topics = admin.topics(names)
    for topic, number in sorted(selection.partitions or ()):
        if number not in topics[topic].partitions:
            why = f"{topic} has no partition {number}"
            raise UnfitSourceError(uid=uid, location=location, key="assign", value=number, why=why)
    return topics


def _resolved(
    uid: str,
    location: str,
    key: str,
    given: Mapping[TopicPartition, int] | int,
    symbol: int,
    actual: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return partition -> offset number, for the value of the option ``key``.

    Args:
        given: partition -> offset or ``symbol``, as the option states them; or ``symbol`` for all partitions.
        symbol: EARLIEST or LATEST.
        actual: partition -> the offset number that ``symbol`` means.

    Raises UnfitSourceError.
    """
    if isinstance(given, int):
        return dict(actual)
    if given.keys() != actual.keys():
        differing = sorted(f"{topic}-{number}" for topic, number in given.keys() ^ actual.keys())
        reason = f"it must name each partition that is read, and no other; it is wrong for {', '.join(differing)}"
        raise UnfitSourceError(uid=uid, location=location, key=key, value=sorted(given), why=reason)
    return {partition: actual[partition] if offset == symbol else offset for partition, offset in given.items()}
