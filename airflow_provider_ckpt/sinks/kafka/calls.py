"""Calls to the Kafka library, and the translation of its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.sinks.errors import (
    InvalidSinkError,
    MissingPackageError,
    ReleaseRefusedError,
    SinkUnavailableError,
    TargetRefusedError,
)
from airflow_provider_ckpt.storage.redaction import as_printed, field_secrets, redact

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_PERMANENT = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_RECORD",
        "INVALID_TRANSACTION_TIMEOUT",
        "MSG_SIZE_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_OR_PART",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)


_LOGIN_REFUSED = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})


class ReleaserFenced(Exception):
    """Another releaser has fenced this releaser. The ledger shows whether this releaser's transaction was committed."""


class KafkaCalls:
    """The calls of one sink to the Kafka library. ``settings``: settings of librdkafka; secret, so never shown."""

    def __init__(self, sink: str, servers: str, settings: Mapping[str, Any]) -> None:
        self.sink, self.servers = sink, servers
        self._secrets = as_printed(field_secrets(settings), [settings.get("sasl.username")])
        self._client_error: Any = None
        self.poll_errors: Callable[[], object] = lambda: None
        """A function that makes the current client report its pending errors to :meth:`on_error`."""

    @property
    def kafka(self) -> Any:
        """The library ``confluent_kafka``.

        Raises MissingPackageError.
        """
        try:
            import confluent_kafka  # an optional package
            import confluent_kafka.admin
        except ImportError:
            raise MissingPackageError(
                "KafkaSink needs confluent-kafka in the driver and wherever its output is released: "
                "pip install 'airflow-provider-ckpt[kafka]'"
            ) from None
        return confluent_kafka

    def on_error(self, error: Any) -> None:
        """Store an error that a client reports by ``error_cb``. Only such errors explain why a client cannot connect.

        A refused login is not overwritten, because the later error only reports that all brokers are down.
        """
        if self._client_error is None or error.name() in _LOGIN_REFUSED:
            self._client_error = error

    def create_client(self, make: Callable[[], Any]) -> Any:
        """Return the new client that ``make`` returns.

        Raises InvalidSinkError if the Kafka library refuses the settings.
        """
        try:
            return make()
        except self.kafka.KafkaException as error:
            cause = redact(error.args[0].str(), self._secrets)
        except (TypeError, ValueError) as error:
            cause = redact(str(error), self._secrets)
        raise InvalidSinkError(
            "sink {sink}: the Kafka client refuses the settings of the sink or its connection: {cause}. Correct "
            "config= of the KafkaSink, or its connection",
            sink=self.sink,
            cause=cause,
        )

    def request(self, description: str, act: Any, absent: str | None = None) -> Any:
        """Return the result of ``act``; None if it fails with the Kafka error called ``absent``.

        Raises ReleaserFenced if another releaser has begun, SinkUnavailableError if another try may succeed, and
        ReleaseRefusedError if not.
        """
        kafka = self.kafka
        self.poll_errors()
        self._client_error = None  # that error belonged to an earlier request
        try:
            return act()
        except kafka.KafkaException as error:
            kafka_error = error.args[0]
            if absent is not None and kafka_error.name() == absent:
                return None
            raise self.error_for(description, kafka_error) from None
        except futures.TimeoutError:
            raise self.unavailable(description, "no answer") from None

    def error_for(self, description: str, error: Any) -> Exception:
        """Return a ReleaserFenced, ReleaseRefusedError or SinkUnavailableError for a ``KafkaError``."""
        if error.name() in _FENCED:
            return ReleaserFenced(description)
        cause = redact(f"{error.name()}: {error.str()}", self._secrets)
        if error.name() in _PERMANENT:
            return ReleaseRefusedError(
                "sink {sink}: {what} at {servers} is refused: {cause}. Nothing of the checkpoint was released",
                sink=self.sink,
                what=description,
                servers=self.servers,
                cause=cause,
            )
        return self.unavailable(description, cause)

    def unavailable(self, description: str, cause: str) -> CkptError:
        self.poll_errors()
        if (client_error := self._client_error) is not None:
            cause += redact(f" ({client_error.name()}: {client_error.str()})", self._secrets)
        return unavailable(self.sink, self.servers, description, cause)


def unavailable(sink: str, servers: str, description: str, cause: str) -> SinkUnavailableError:
    """Return the error for a request that may succeed in another try."""
    return SinkUnavailableError(
        "sink {sink}: {what} at {servers} failed: {cause}. The outcome is read from the ledger before anything is "
        "written again",
        sink=sink,
        what=description,
        servers=servers,
        cause=cause,
    )


def topic_refused(sink: str, topic: str, servers: str, problem: str) -> TargetRefusedError:
    """Return the error for a topic that does not accept the rows."""
    return TargetRefusedError(
        "sink {sink} cannot write to topic {topic} at {servers}: {problem}",
        sink=sink,
        topic=topic,
        servers=servers,
        problem=problem,
    )
