"""Kafka brokers of an Airflow connection, for librdkafka (sinks) and for Spark's connector (sources)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.connections.errors import BadConnectionError

_SERVERS = "bootstrap.servers"
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SSL_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""librdkafka's settings of PEM files → Java's settings for the text of these files."""
_SSL_TEXTS = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
}
_SASL = ("sasl.mechanism", "sasl.username", "sasl.password")
_NAME_CHECK = "ssl.endpoint.identification.algorithm"
_KNOWN = {_SERVERS, "security.protocol", "client.id", _NAME_CHECK}
_USED = frozenset({*_KNOWN, *_SASL, *_SSL_FILES, *_SSL_TEXTS})
_MECHANISMS = "sasl.mechanisms"
"""librdkafka's other name of ``sasl.mechanism``."""
_READ = _USED | {_MECHANISMS}


@dataclass(frozen=True, repr=False)
class KafkaBrokers:
    """Kafka brokers and librdkafka's settings to log in to them. ``repr`` shows only the connection and the servers."""

    conn_id: str
    servers: str
    settings: Mapping[str, str] = field(hash=False)

    @classmethod
    def of_connection(cls, connection: Connection) -> KafkaBrokers:
        """Read a connection of type ``kafka``.

        Its extra is a librdkafka configuration, as for Airflow's Kafka provider. Only the servers and the settings for
        security (``security.protocol``, ``sasl.…``, ``ssl.…``) are used. Host, port, login and password supply what the
        extra lacks.

        Raises BadConnectionError.
        """
        problem = _problem_of(connection)
        if problem is not None:
            raise BadConnectionError(conn_id=connection.conn_id, problem=problem)
        settings = _settings_of(connection)
        return cls(connection.conn_id, settings.pop(_SERVERS), settings)

    def reader_options(self) -> dict[str, str]:
        """Return the options of a Spark reader of the format ``kafka``.

        The driver reads the PEM files here, because executors do not have them.

        Raises BadConnectionError for a SASL mechanism without user and password, and for an unreadable file.
        """
        java: dict[str, str] = {_SERVERS: self.servers}
        for name, text in self.settings.items():
            if name in _SSL_FILES:
                java[_SSL_FILES[name]] = self._file_text(name, text)
            elif name not in _SASL:
                java[_SSL_TEXTS.get(name, name)] = text
        if self.settings.get("security.protocol", "").startswith("SASL"):
            java |= self._sasl()
        if java.get(_NAME_CHECK) == "none":
            java[_NAME_CHECK] = ""
        for store in ("truststore", "keystore"):
            if any(name.startswith(f"ssl.{store}.") for name in java):
                java[f"ssl.{store}.type"] = "PEM"
        return {f"kafka.{name}": text for name, text in java.items()}

    def _sasl(self) -> dict[str, str]:
        mechanism = self.settings["sasl.mechanism"]
        module = _LOGIN_MODULES.get(mechanism)
        if module is None:
            problem = (
                f"sasl.mechanism {mechanism!r} has no user and password that could be handed to Spark's connector; "
                "give the source its kafka.sasl.… options yourself"
            )
            raise BadConnectionError(conn_id=self.conn_id, problem=problem)
        user, password = (_quoted(self.settings.get(f"sasl.{name}", "")) for name in ("username", "password"))
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{module} required username={user} password={password};",
        }

    def _file_text(self, setting: str, path: str) -> str:
        try:
            return Path(path).read_text()
        except (OSError, ValueError) as error:
            problem = f"its {setting} cannot be read: {type(error).__name__}"
        raise BadConnectionError(conn_id=self.conn_id, problem=problem)

    def __repr__(self) -> str:
        return f"KafkaBrokers({self.conn_id!r}, {self.servers!r})"


def kafka_options(conn_id: str) -> dict[str, str]:
    """Return the servers, the protocol and the secrets of a connection as options of a Spark reader (format ``kafka``).

    Call it in the function of a source. The environment of the process must have the connection (``conn_ids=``)::

        read.format("kafka").options(**kafka_options("shop_kafka")).option("subscribe", "orders").load()

    Raises ConnectionMissingError, BadConnectionError.
    """
    return read_brokers(conn_id).reader_options()


def read_brokers(conn_id: str) -> KafkaBrokers:
    """Read the brokers of a connection. Raises ConnectionMissingError, BadConnectionError."""
    return KafkaBrokers.of_connection(read_connection(conn_id))


def _settings_of(connection: Connection) -> dict[str, str]:
    settings = {name: _as_text(value) for name, value in connection.extra.items() if name in _USED}
    if _MECHANISMS in connection.extra:
        settings.setdefault("sasl.mechanism", _as_text(connection.extra[_MECHANISMS]))
    if connection.host:
        port = f":{connection.port}" if connection.port else ""
        settings.setdefault(_SERVERS, f"{connection.host}{port}")
    for name, value in (("sasl.username", connection.login), ("sasl.password", connection.password)):
        if value:
            settings.setdefault(name, value)
    return settings


def _problem_of(connection: Connection) -> str | None:
    if connection.conn_type != "kafka":
        return f"it is of the type {connection.conn_type!r}, not of the type 'kafka'"
    invalid = [name for name, value in connection.extra.items() if name in _READ and not isinstance(value, str | int)]
    if invalid:
        return f"{invalid[0]} in its extra is no text"
    settings = _settings_of(connection)
    if not settings.get(_SERVERS, "").strip():
        return "it names no brokers: neither bootstrap.servers in its extra nor a host"
    protocol = settings.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        return f"its security.protocol is none of {', '.join(_PROTOCOLS)}"
    if protocol.startswith("SASL") and not settings.get("sasl.mechanism"):
        # without it the clients of a source and a sink would choose different defaults
        return f"its security.protocol is {protocol}, and sasl.mechanism in its extra names no mechanism (PLAIN, …)"
    has_login = bool(settings.get("sasl.username") or settings.get("sasl.password"))
    if has_login and not protocol.startswith("SASL"):
        return "it has an unused login or password: security.protocol in its extra is no SASL protocol"
    unknown = sorted(key for key in connection.extra if key.startswith(("sasl.", "ssl.")) and key not in _READ)
    return f"{unknown[0]} in its extra is not supported here" if unknown else None


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
