"""A sink that releases each checkpoint to a Kafka topic in one transaction, and the check of its input columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_ckpt.connections.kafka_brokers import read_brokers
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
from airflow_provider_ckpt.sinks.kafka.client import KafkaClient
from airflow_provider_ckpt.sinks.sink import Sink, SinkContext, SinkInput
from airflow_provider_ckpt.sinks.spark_types import shown
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri, open_storage

COLUMNS = {"value": ("binary", "string"), "key": ("binary", "string"), "partition": ("integer",)}
_ADVICE = 'Select "value", and if wanted "key" and "partition": to_json(struct("*")) makes a value of all columns'

Config = Mapping[str, Any] | Callable[[], Mapping[str, Any]]

_OWN_SETTINGS = frozenset(
    {
        "bootstrap.servers",
        "enable.idempotence",
        "isolation.level",
        "metadata.broker.list",
        "transaction.timeout.ms",
        "transactional.id",
    }
)


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A sink that writes records to a Kafka topic: the column ``value``, and ``key`` and ``partition`` if they exist.

    Readers with ``isolation.level=read_committed`` see all records of a release at once.

    Args:
        servers: bootstrap servers, ``host:port`` separated by commas.
        topic: the topic, which must exist.
        staging: a folder where rows wait for their checkpoint, as a path or any fsspec URI.
        config: settings of librdkafka (``security.protocol``, ``sasl.username``, …), or a function without arguments
            that returns them. The function is called in the process that binds the sink.
        config_env: setting -> name of the environment variable that has its value, for secrets.
        storage_options: fsspec options of ``staging``; None means those of the job's root.
        transaction_timeout: timeout of a release, in seconds. Brokers allow 900 by default
            (``transaction.max.timeout.ms``).
        conn_id: instead of ``servers``: an Airflow connection of type ``kafka`` with servers and credentials, which a
            driver finds in its environment (``conn_ids=`` of the operator).
    """

    servers: str | None = None
    topic: str = ""
    staging: str = ""
    config: Config = field(default_factory=dict, repr=False)
    config_env: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    transaction_timeout: float = 600
    conn_id: str | None = None

    changeable: ClassVar[frozenset[str]] = frozenset({"servers"})

    def validate(self) -> None:
        if (self.servers is None) == (self.conn_id is None):
            raise self._invalid("servers", self.servers, "is needed, or conn_id instead of it")
        for setting in ("conn_id" if self.servers is None else "servers", "topic", "staging"):
            value = getattr(self, setting)
            if not isinstance(value, str) or not value.strip():
                raise self._invalid(setting, value, "is no text")
        if not callable(self.config):
            self._check_settings("config", self.config)
        self._check_settings("config_env", self.config_env)
        for setting, variable in self.config_env.items():
            if not isinstance(variable, str):
                raise self._invalid("config_env", setting, "has no text for the name of its variable")
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            raise self._invalid("storage_options", "…", "is no dict of options by name")
        timeout = self.transaction_timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 1 <= timeout <= 3600:
            raise self._invalid("transaction_timeout", timeout, "is no number of seconds up to 3600")

    def _check_settings(self, argument: str, given: object) -> None:
        """Refuse settings of a wrong form. The error shows no value, because it may be a secret."""
        if not isinstance(given, Mapping):
            raise self._invalid(argument, "…", f"is an object of type {type(given).__name__}; give a dict by name")
        for name in given:
            if not isinstance(name, str):
                raise self._invalid(argument, name, "is no name of a setting: names are texts")
            if name in _OWN_SETTINGS:
                raise self._invalid("config", name, "is set by the sink itself; remove it")

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="KafkaSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        return {
            **super().definition(),
            "servers": self.servers,
            "topic": self.topic,
            "staging": canonical_uri(self.staging),
        }

    def check_input(self, given: SinkInput) -> None:
        check_kafka_input(given)

    def bind(self, context: SinkContext) -> BoundKafkaSink:
        """Connect the sink to its folder and client.

        Raises InvalidSinkError for an unset environment variable, ConnectionMissingError, BadConnectionError.
        """
        self.validate()
        servers, settings = self._access()
        client = KafkaClient(context.uid, servers, settings, self.transaction_timeout)
        return self.bind_to(client, context)

    def bind_to(self, client: KafkaClient, context: SinkContext) -> BoundKafkaSink:
        """Bind the sink like :meth:`bind`, to the given client."""
        [folder] = self.spark_folders(context.storage_options)
        return BoundKafkaSink(self.topic, client, context, open_storage(folder))

    def _access(self) -> tuple[str, dict[str, Any]]:
        """Return (servers, settings). ``config`` overrides the connection's settings."""
        if self.conn_id is None:
            return self.servers or "", self._settings()
        brokers = read_brokers(self.conn_id)
        return brokers.servers, {**brokers.settings, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        config = self.config() if callable(self.config) else self.config
        self._check_settings("config", config)
        settings = dict(config)
        for setting, variable in self.config_env.items():
            if variable not in os.environ:
                raise self._invalid("config_env", variable, f"is not set in the environment, for {setting}")
            settings[setting] = os.environ[variable]
        return settings

    def spark_folders(self, storage_options: Mapping[str, Any]) -> list[Location]:
        return [Location(self.staging, storage_options if self.storage_options is None else self.storage_options)]


def check_kafka_input(given: SinkInput) -> None:
    """Refuse columns that a Kafka record does not have, and rows without ``value`` or without a needed ``key``.

    Raises SinkInputError.
    """
    kinds = dict(given.columns)
    if "value" not in kinds:
        raise _refused(given, f"its input has no column 'value', but {', '.join(map(repr, kinds)) or 'none at all'}")
    for name, kind in given.columns:
        if name not in COLUMNS:
            raise _refused(given, f"its input has the column {name!r}, which is no part of a Kafka record")
        if kind not in COLUMNS[name]:
            raise _refused(given, f"column {name!r} is of type {shown(kind)}, not {' or '.join(COLUMNS[name])}")
    if given.output_mode != "append" and "key" not in kinds:
        problem = f"in output mode {given.output_mode!r} rows replace earlier ones, and its input has no column 'key'"
        raise _refused(given, problem)


def _refused(given: SinkInput, problem: str) -> SinkInputError:
    return SinkInputError(sink=given.uid, problem=problem, advice=_ADVICE)
