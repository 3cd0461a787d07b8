"""Errors of a Kafka source that are found before it is read: wrong options, missing topics, failing brokers."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class KafkaOptionError(InvalidInputError):
    template = "source {uid!r} ({location}) has the option {key}={value}: {why}"


class KafkaConnectorError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) reads Kafka, and Spark has no Kafka client ({cause}): give the job Spark's "
        "connector, spark-sql-kafka-0-10 of Spark's own version, with spark.jars.packages (packages of the operator)"
    )


class KafkaTopicMissingError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) reads {topic}, and the brokers at {servers} know no such topic: create it, or "
        "correct the name"
    )


class KafkaUnreachableError(TransientError):
    template = "source {uid!r} ({location}): the brokers at {servers} do not answer: {cause}"


class KafkaRefusedError(TerminalError):
    template = "source {uid!r} ({location}): the brokers at {servers} refuse a request of the job: {cause}"


class KafkaStartGoneError(InvalidInputError):
    """A start offset that a partition no longer holds, or does not hold yet. Found when the source's end is frozen."""

    template = (
        "source {uid!r} ({location}) must be read from offset {start} of {topic}, partition {partition}, which holds "
        "{begin} to {end}: set another start in startingOffsets"
    )
