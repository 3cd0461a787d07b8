"""Queries to Kafka brokers about topics and offsets, with the client that Spark's Kafka connector contains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.errors import UnfitSourceError
from airflow_provider_ckpt.spark.query.kafka.errors import (
    KafkaRefusedError,
    KafkaTopicMissingError,
    KafkaUnreachableError,
)
from airflow_provider_ckpt.spark.query.kafka.kafka_options import TopicPartition, milliseconds, of_options

API_TIMEOUT_MS = 30_000
"""Value of ``kafka.default.api.timeout.ms`` in milliseconds, if the user sets none.

The client's own default of a minute is long if a broker's name is mistyped.
"""
_PREFIX = "kafka."
_TIMEOUT = "default.api.timeout.ms"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of every topic if the brokers have no topic ids."""
_ADMIN = "org.apache.kafka.clients.admin"


@dataclass(frozen=True)
class Topic:
    """A topic with its id and the numbers of its partitions. ``id`` is empty if the brokers have no topic ids."""

    id: str
    partitions: tuple[int, ...]


class KafkaAdmin:
    """A connection to the brokers of one source. Use it as a context manager, which opens and closes it.

    Each method raises KafkaUnreachableError if no broker answers in time, and KafkaRefusedError for other failures. It
    raises UnfitSourceError if Spark has no Kafka client.
    """

    def __init__(self, spark: SparkSession, uid: str, location: str, options: Mapping[str, str]) -> None:
        """Prepare a client with the options of the source's reader that begin with ``kafka.``.

        Raises UnfitSourceError.
        """
        client_options = of_options(options)
        self._client = {key[len(_PREFIX) :]: value for key, value in client_options.items() if key.startswith(_PREFIX)}
        self._client.setdefault(_TIMEOUT, str(API_TIMEOUT_MS))
        self._within = milliseconds(uid, location, f"{_PREFIX}{_TIMEOUT}", self._client[_TIMEOUT])
        self._client.setdefault("request.timeout.ms", str(min(API_TIMEOUT_MS, self._within)))
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._where = {"uid": uid, "location": location, "servers": self._client.get("bootstrap.servers", "")}
        self._committed = self._client.get("isolation.level", "").lower() == "read_committed"
        self._admin: Any = None

    def __enter__(self) -> KafkaAdmin:
        self._admin = self._call(lambda: self._class("Admin").create(self._properties()))
        return self

    def __exit__(self, *raised: object) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def names(self, pattern: str) -> tuple[str, ...]:
        """Return the sorted names of the topics that a regular expression of Java matches as a whole.

        Kafka's internal topics are left out.

        Raises UnfitSourceError.
        """
        try:
            fits = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:  # PySpark's class for Java's PatternSyntaxException
            why = f"it is no regular expression of Java's: {error}"
            raise UnfitSourceError(**self._named(), key="subscribePattern", value=pattern, why=why) from None
        names = self._call(lambda: self._await(self._admin.listTopics().names()))
        return tuple(sorted(str(name) for name in names if fits.matcher(name).matches()))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Return topic name -> topic, for the given names.

        Raises KafkaTopicMissingError.
        """
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> Topic:
        """Return the topic of this name. Only one topic is requested, so that an error is about this topic."""
        names = self._jvm.java.util.List.of(name)
        description = self._call(lambda: self._await(self._admin.describeTopics(names).allTopicNames()), name)[name]
        identity = str(description.topicId().toString())
        return Topic(
            "" if identity == _NO_ID else identity,
            tuple(sorted(int(partition.partition()) for partition in description.partitions())),
        )

    def offsets(
        self, partitions: Iterable[TopicPartition], which: Literal["earliest", "latest"]
    ) -> dict[TopicPartition, int]:
        """Return partition -> its earliest or latest offset, as ``which`` asks for.

        If the source reads only committed rows (``read_committed``), the latest offset is before any open transaction.
        """
        spec = getattr(self._class("OffsetSpec"), which)()
        level = self._jvm.org.apache.kafka.common.IsolationLevel
        read = level.READ_COMMITTED if self._committed else level.READ_UNCOMMITTED
        specs = self._jvm.java.util.HashMap()
        for topic, number in partitions:
            specs.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, number), spec)
        options = self._class("ListOffsetsOptions")(read)
        results = self._call(lambda: self._await(self._admin.listOffsets(specs, options).all()))
        return {
            (str(partition.topic()), int(partition.partition())): int(results[partition].offset())
            for partition in results
        }

    def _await(self, future: Any) -> Any:
        return future.get(2 * self._within, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

    def _properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        for key, value in self._client.items():
            properties.put(key, value)
        return properties

    def _class(self, name: str) -> Any:
        java_class = getattr(getattr(self._jvm, _ADMIN), name)
        if type(java_class).__name__ == "JavaPackage":  # py4j returns a package for every unknown name
            raise self._without_client(f"{_ADMIN}.{name} is not on its class path")
        return java_class

    def _without_client(self, cause: str) -> UnfitSourceError:
        return UnfitSourceError(
            "source {uid!r} ({location}) reads Kafka, and Spark has no Kafka client ({cause}): give the job Spark's "
            "connector, spark-sql-kafka-0-10 of Spark's own version, with spark.jars.packages (packages of the "
            "operator)",
            **self._named(),
            cause=cause,
        )

    def _named(self) -> dict[str, str]:
        return {key: self._where[key] for key in ("uid", "location")}

    def _call(self, ask: Callable[[], Any], topic: str = "") -> Any:
        try:
            return ask()
        except CkptError:
            raise
        except Py4JJavaError as error:
            raise self._error_for(_innermost(error.java_exception), topic) from None
        except Py4JError as error:
            raise self._without_client(str(error)) from None

    def _error_for(self, error: Any, topic: str) -> CkptError:
        kinds, message = _kinds(error), str(error.getMessage())
        cause = f"{kinds[0].rpartition('.')[2]}: {message}"
        if topic and any(
            kind.endswith((".UnknownTopicOrPartitionException", ".InvalidTopicException")) for kind in kinds
        ):
            return KafkaTopicMissingError(**self._where, topic=topic)
        passes = any(kind.endswith((".RetriableException", "TimeoutException")) for kind in kinds)
        if passes or "No resolvable bootstrap urls" in message:
            return KafkaUnreachableError(**self._where, cause=cause)
        return KafkaRefusedError(**self._where, cause=cause)


def _kinds(error: Any) -> list[str]:
    """Return the names of the error's class and of its superclasses."""
    kinds, kind = [], error.getClass()
    while kind is not None:
        kinds.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return kinds


def _innermost(error: Any) -> Any:
    while error.getCause() is not None:
        error = error.getCause()
    return error
