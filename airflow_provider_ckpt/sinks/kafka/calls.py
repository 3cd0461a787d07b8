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
_HOPELESS = frozenset(
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


_NOT_LET_IN = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})


class ReleaserFenced(Exception):
    """Another releaser of this sink has begun since. The ledger shows the fate of our transaction."""


class KafkaCalls:
    """The calls of one sink. ``settings``: settings of librdkafka, with secrets, which are never shown."""

    def __init__(self, sink: str, servers: str, settings: Mapping[str, Any]) -> None:
        self.sink, self.servers = sink, servers
        self._secrets = as_printed(field_secrets(settings), [settings.get("sasl.username")])
        self._heard: Any = None
        self.listen: Callable[[], object] = lambda: None
        """A function that makes the current client report its pending errors to :meth:`hear`."""

    @property
    def kafka(self) -> Any:
        """Return the library.

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

    def hear(self, error: Any) -> None:
        """Store an error that a client reports to its ``error_cb``. Only there does it explain why it cannot connect.

        A refused login is kept, because the later error only reports that all brokers are down.
        """
        if self._heard is None or error.name() in _NOT_LET_IN:
            self._heard = error

    def made(self, make: Callable[[], Any]) -> Any:
        """Return a new client.

        Raises InvalidSinkError, because another try would be refused, too.
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

    def asked(self, what: str, ask: Any, absent: str | None = None) -> Any:
        """Return the result of ``ask``.

        Args:
            what: the request, for error texts.
            ask: makes the request.
            absent: name of the error for which None is returned.

        Raises ReleaserFenced.
        Raises SinkUnavailableError if another try may help, ReleaseRefusedError if not.
        """
        kafka = self.kafka
        self.listen()
        self._heard = None  # that error belonged to an earlier request
        try:
            return ask()
        except kafka.KafkaException as error:
            told = error.args[0]
            if absent is not None and told.name() == absent:
                return None
            raise self.told(what, told) from None
        except futures.TimeoutError:
            raise self.unavailable(what, "no answer") from None

    def told(self, what: str, error: Any) -> Exception:
        """Return the error for a ``KafkaError``."""
        if error.name() in _FENCED:
            return ReleaserFenced(what)
        cause = redact(f"{error.name()}: {error.str()}", self._secrets)
        if error.name() in _HOPELESS:
            return ReleaseRefusedError(
                "sink {sink}: {what} at {servers} is refused: {cause}. Nothing of the checkpoint was released",
                sink=self.sink,
                what=what,
                servers=self.servers,
                cause=cause,
            )
        return self.unavailable(what, cause)

    def unavailable(self, what: str, cause: str) -> CkptError:
        self.listen()
        if (heard := self._heard) is not None:
            cause += redact(f" ({heard.name()}: {heard.str()})", self._secrets)
        return unavailable(self.sink, self.servers, what, cause)


def unavailable(sink: str, servers: str, what: str, cause: str) -> SinkUnavailableError:
    """Return the error for a request that another try may settle."""
    return SinkUnavailableError(
        "sink {sink}: {what} at {servers} failed: {cause}. The outcome is read from the ledger before anything is "
        "written again",
        sink=sink,
        what=what,
        servers=servers,
        cause=cause,
    )


def topic_refused(sink: str, topic: str, servers: str, problem: str) -> TargetRefusedError:
    """Return the error for a topic that does not take the rows."""
    return TargetRefusedError(
        "sink {sink} cannot write to topic {topic} at {servers}: {problem}",
        sink=sink,
        topic=topic,
        servers=servers,
        problem=problem,
    )
