"""Errors of Kafka sources: a topic is missing, or the brokers do not answer, or they refuse a request."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class KafkaTopicMissingError(InvalidInputError):
    template = (
        "source {uid!r} ({location}) reads {topic}, and the brokers at {servers} know no such topic: create it, or "
        "correct the name"
    )


class KafkaUnreachableError(TransientError):
    template = "source {uid!r} ({location}): the brokers at {servers} do not answer: {cause}"


class KafkaRefusedError(TerminalError):
    template = "source {uid!r} ({location}): the brokers at {servers} refuse a request of the job: {cause}"
