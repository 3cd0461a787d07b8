"""What is wrong with a Kafka source: with its options, its topics, its brokers, or with rows that are gone."""

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
        "source {uid!r} ({location}) reads {topic}, and the brokers at {servers} know no such topic: make it, or "
        "mend the name"
    )


class KafkaUnreachableError(TransientError):
    template = "source {uid!r} ({location}): the brokers at {servers} do not answer: {cause}"


class KafkaRefusedError(TerminalError):
    template = "source {uid!r} ({location}): the brokers at {servers} refuse what the job asks of them: {cause}"


class KafkaStartGoneError(InvalidInputError):
    """Seen when the end of the source is frozen: nothing of it was read yet."""

    template = (
        "source {uid!r} ({location}) is to be read from offset {start} of {topic}, partition {partition}, which holds "
        "{begin} to {end}: say where to begin in startingOffsets"
    )


class KafkaRowsGoneError(TerminalError):
    """Spark's own report of it, of a query that runs. Data: vertex, reason."""

    template = (
        "the query of vertex {vertex!r} cannot go on: rows that it has still to read are gone from Kafka. {reason} "
        "Retention has taken them, or the topic was deleted or made again. Nothing of the batch was released. A retry "
        "would find the same: run the job under another id, from what is there"
    )
