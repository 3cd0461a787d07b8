"""Errors of the Kafka sink. They show no client settings."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError
from airflow_provider_ckpt.sinks.errors import OutputLostError


class KafkaClientMissingError(InvalidInputError):
    template = (
        "KafkaSink needs confluent-kafka in the driver and wherever its output is released: "
        "pip install 'airflow-provider-ckpt[kafka]'"
    )


class KafkaTargetError(InvalidInputError):
    """The sink cannot write to its topic. Nothing was staged."""

    template = "sink {sink} cannot write to topic {topic} at {servers}: {problem}"


class KafkaSettingsError(InvalidInputError):
    """The Kafka client refuses its settings. ``cause`` does not show their values."""

    template = (
        "sink {sink}: the Kafka client refuses the settings of the sink or its connection: {cause}. Correct config= "
        "of the KafkaSink, or its connection"
    )


class KafkaUnavailableError(TransientError):
    template = (
        "sink {sink}: {what} at {servers} failed: {cause}. The outcome is read from the ledger before "
        "anything is written again"
    )


class KafkaRejectedError(TerminalError):
    template = "sink {sink}: {what} at {servers} is refused: {cause}. Nothing of the checkpoint was released"


class KafkaRecordTooLargeError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} has more than {limit} bytes in key and value, which topic {topic} does "
        "not take (max.message.bytes). Nothing of the batch was staged: raise the limit of the topic, or leave such "
        "rows out, and resume with --resume-failed"
    )


class KafkaRowRefusedError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} {problem}; no release could write it to {topic}. Nothing of the batch "
        "was staged: {advice}, or leave such rows out, and resume with --resume-failed"
    )


class KafkaTopicLostError(OutputLostError):
    """The topic is not the one that rows were released to. Data: sink, job, topic, servers, problem, released."""

    template = (
        "sink {sink!r} of job {job!r}: topic {topic} at {servers} {problem} since checkpoint {released} was released "
        "to it, so the rows that were released are gone. Nothing was written. Run the job under another id, from its "
        "input"
    )


class KafkaLedgerLostError(TerminalError):
    """The record of releases is gone or damaged. If it counted as "nothing released", rows would be written again."""

    template = (
        "the ledger of sink {sink} of job {job!r}, topic {ledger} at {servers}, {problem}. It records which "
        "checkpoints the job has released to {topic}, and a release without it could write rows twice. Nothing was "
        "released: bring it back and resume with --resume-failed, or run the job under another id, from its input"
    )
