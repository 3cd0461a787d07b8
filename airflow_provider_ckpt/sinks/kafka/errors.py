"""Errors of the Kafka sink. None holds a client setting."""

from __future__ import annotations

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError
from airflow_provider_ckpt.sinks.errors import OutputLostError


class KafkaClientMissingError(InvalidInputError):
    template = (
        "KafkaSink needs confluent-kafka in the driver and wherever its output is released: "
        "pip install 'airflow-provider-ckpt[kafka]'"
    )


class KafkaTargetError(InvalidInputError):
    """Seen before anything is staged."""

    template = "sink {sink} cannot write to topic {topic} at {servers}: {problem}"


class KafkaSettingsError(InvalidInputError):
    """``cause`` is shown without the settings' own texts."""

    template = (
        "sink {sink}: the Kafka client does not take the settings of the sink or its connection: {cause}. Mend config= "
        "of the KafkaSink, or what its connection says"
    )


class KafkaUnavailableError(TransientError):
    template = (
        "sink {sink}: {what} at {servers} failed: {cause}. What became of it is read from the ledger before "
        "anything is written again"
    )


class KafkaRejectedError(TerminalError):
    template = "sink {sink}: {what} at {servers} is refused: {cause}. Nothing of the checkpoint was released"


class KafkaRecordTooLargeError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} has more than {limit} bytes in key and value, which topic {topic} does "
        "not take (max.message.bytes). Nothing of the batch was staged: raise the limit of the topic, or leave such "
        "rows out, and go on with --resume-failed"
    )


class KafkaRowRefusedError(TerminalError):
    template = (
        "sink {sink}: a row of batch {handle} {problem}; no release could write it to {topic}. Nothing of the batch "
        "was staged: {advice}, or leave such rows out, and go on with --resume-failed"
    )


class KafkaTopicLostError(OutputLostError):
    """The topic is not the one that rows were released to. Data: sink, job, topic, servers, problem, released."""

    template = (
        "sink {sink!r} of job {job!r}: topic {topic} at {servers} {problem} since checkpoint {released} was released "
        "to it, so the rows that were released are gone. Nothing was written. Run the job under another id, from its "
        "input"
    )


class KafkaLedgerLostError(TerminalError):
    """Taken for "nothing released", rows would be written once more."""

    template = (
        "the ledger of sink {sink} of job {job!r}, topic {ledger} at {servers}, {problem}. It says which checkpoints "
        "the job has released to {topic}, and a release without it could write rows twice. Nothing was released: bring "
        "it back and go on with --resume-failed, or run the job under another id, from its input"
    )
