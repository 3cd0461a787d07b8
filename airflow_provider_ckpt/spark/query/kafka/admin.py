"""What the brokers say of topics, asked through the Kafka client that Spark's connector brings: no other one is
needed in the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.spark.query.kafka.errors import (
    KafkaConnectorError,
    KafkaOptionError,
    KafkaRefusedError,
    KafkaTopicMissingError,
    KafkaUnreachableError,
)
from airflow_provider_ckpt.spark.query.kafka.options import TopicPartition, milliseconds, of_options

ANSWER_WITHIN = 30_000
"""Milliseconds, if the source sets no ``kafka.default.api.timeout.ms``: the client's own minute is long for a name
that was mistyped."""
_PREFIX = "kafka."
_TIMEOUT = "default.api.timeout.ms"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers say that know no ids of topics."""
_ADMIN = "org.apache.kafka.clients.admin"


@dataclass(frozen=True)
class Topic:
    """``id`` is empty if the brokers give topics none."""

    id: str
    partitions: tuple[int, ...]


class KafkaAdmin:
    """Of one source; a context. ``options``: of its reader. Every method raises KafkaUnreachableError if nobody answers
    in time, KafkaRefusedError for whatever else the brokers say."""

    def __init__(self, spark: SparkSession, uid: str, location: str, options: Mapping[str, str]) -> None:
        """Raises KafkaConnectorError, KafkaOptionError."""
        given = of_options(options)
        self._client = {key[len(_PREFIX) :]: value for key, value in given.items() if key.startswith(_PREFIX)}
        self._client.setdefault(_TIMEOUT, str(ANSWER_WITHIN))
        self._within = milliseconds(uid, location, f"{_PREFIX}{_TIMEOUT}", self._client[_TIMEOUT])
        self._client.setdefault("request.timeout.ms", str(min(ANSWER_WITHIN, self._within)))
        self._spark, self._jvm = spark, _jvm(spark)
        self._where = {"uid": uid, "location": location, "servers": self._client.get("bootstrap.servers", "")}
        self._committed = self._client.get("isolation.level", "").lower() == "read_committed"
        self._admin: Any = None

    def __enter__(self) -> KafkaAdmin:
        self._admin = self._asked(lambda: self._class("Admin").create(self._properties()))
        return self

    def __exit__(self, *raised: object) -> None:
        self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def names(self, pattern: str) -> tuple[str, ...]:
        """The topics whose whole name the pattern (Java's) fits, without Kafka's own. Raises KafkaOptionError."""
        try:
            fits = self._jvm.java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:  # PySpark's, of Java's PatternSyntaxException
            why = f"it is no regular expression of Java's: {error}"
            raise KafkaOptionError(**self._named(), key="subscribePattern", value=pattern, why=why) from None
        names = self._asked(lambda: self._got(self._admin.listTopics().names()))
        return tuple(sorted(str(name) for name in names if fits.matcher(name).matches()))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Raises KafkaTopicMissingError."""
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> Topic:
        """Of several at once, the brokers do not say which one they do not know."""
        asked = self._jvm.java.util.List.of(name)
        told = self._asked(lambda: self._got(self._admin.describeTopics(asked).allTopicNames()), name)[name]
        identity = str(told.topicId().toString())
        return Topic(
            "" if identity == _NO_ID else identity, tuple(sorted(int(one.partition()) for one in told.partitions()))
        )

    def offsets(
        self, partitions: Iterable[TopicPartition], which: Literal["earliest", "latest"]
    ) -> dict[TopicPartition, int]:
        """``latest``: up to where a reader of the source's isolation level comes now."""
        spec = getattr(self._class("OffsetSpec"), which)()
        level = self._jvm.org.apache.kafka.common.IsolationLevel
        read = level.READ_COMMITTED if self._committed else level.READ_UNCOMMITTED
        asked = self._jvm.java.util.HashMap()
        for topic, number in partitions:
            asked.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, number), spec)
        options = self._class("ListOffsetsOptions")(read)
        told = self._asked(lambda: self._got(self._admin.listOffsets(asked, options).all()))
        return {(str(one.topic()), int(one.partition())): int(told[one].offset()) for one in told}

    def _got(self, future: Any) -> Any:
        return future.get(2 * self._within, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

    def _properties(self) -> Any:
        properties = self._jvm.java.util.Properties()
        for key, value in self._client.items():
            properties.put(key, value)
        return properties

    def _class(self, name: str) -> Any:
        found = getattr(getattr(self._jvm, _ADMIN), name)
        if type(found).__name__ == "JavaPackage":  # which py4j takes every name for that it knows nothing of
            raise KafkaConnectorError(**self._named(), cause=f"{_ADMIN}.{name} is not on its class path")
        return found

    def _named(self) -> dict[str, str]:
        return {key: self._where[key] for key in ("uid", "location")}

    def _asked(self, ask: Callable[[], Any], topic: str = "") -> Any:
        try:
            return ask()
        except CkptError:
            raise
        except Py4JJavaError as error:
            raise self._told(_innermost(error.java_exception), topic) from None
        except Py4JError as error:
            raise KafkaConnectorError(**self._named(), cause=str(error)) from None

    def _told(self, error: Any, topic: str) -> CkptError:
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
    """The name of its class, and of those above."""
    kinds, kind = [], error.getClass()
    while kind is not None:
        kinds.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return kinds


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _innermost(error: Any) -> Any:
    """What a future, or a constructor of the client, wraps."""
    while error.getCause() is not None:
        error = error.getCause()
    return error
