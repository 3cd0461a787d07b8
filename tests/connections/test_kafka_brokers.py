"""Brokers of an Airflow connection, with the setting names of librdkafka and of Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import KafkaSink, kafka_options
from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.connections.errors import BadConnectionError, ConnectionMissingError
from airflow_provider_ckpt.connections.kafka_brokers import KafkaBrokers
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.sink import SinkContext

SECRET = "s3cr3tPW"


def brokers(**given: Any) -> KafkaBrokers:
    extra = {"bootstrap.servers": "b:9093", **given.pop("extra", {})}
    return KafkaBrokers.of_connection(Connection("shop", given.pop("conn_type", "kafka"), extra=extra, **given))


def test_a_login_is_translated_for_both_kafka_clients() -> None:
    extra = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "group.id": "others"}
    found_brokers = brokers(login="me", password=SECRET, extra=extra)
    assert found_brokers.servers == "b:9093"
    assert found_brokers.settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": SECRET,
    }
    assert found_brokers.reader_options() == {
        "kafka.bootstrap.servers": "b:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="me" password="{SECRET}";',
    }
    assert SECRET not in repr(found_brokers)


def test_quotes_in_a_password_are_escaped() -> None:
    encoded = brokers(
        login="me", password='a"; evil="\\', extra={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    )
    config = encoded.reader_options()["kafka.sasl.jaas.config"]
    assert config.endswith(' password="a\\"; evil=\\"\\\\";')


def test_certificates_are_passed_as_text(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    files = {"ssl.ca.location": "ca", "ssl.certificate.location": "cert", "ssl.key.location": "key"}
    extra = {name: str(tmp_path / file) for name, file in files.items()}
    given = {"security.protocol": "SSL", "ssl.key.password": SECRET, "ssl.endpoint.identification.algorithm": "none"}
    options = brokers(extra={**extra, **given}).reader_options()
    assert options == {
        "kafka.bootstrap.servers": "b:9093",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.certificates": "PEM of ca",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "PEM of cert",
        "kafka.ssl.keystore.key": "PEM of key",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.key.password": SECRET,
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_host_and_port_may_name_the_brokers() -> None:
    assert KafkaBrokers.of_connection(Connection("shop", "kafka", "b", 9092)).servers == "b:9092"
    assert KafkaBrokers.of_connection(Connection("shop", "kafka", "b:1,c:2")).servers == "b:1,c:2"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"conn_type": "http"}, "of the type 'http'"),
        ({"extra": {"bootstrap.servers": " "}}, "names no brokers"),
        ({"extra": {"bootstrap.servers": ["b"]}}, "bootstrap.servers in its extra is no text"),
        (
            {"login": "me", "extra": {"security.protocol": "SASL_SSL", "sasl.mechanisms": ["PLAIN"]}},
            "sasl.mechanisms in its extra is no text",
        ),
        ({"login": "me", "extra": {"security.protocol": "SASL_SSL"}}, "sasl.mechanism in its extra names no mechanism"),
        ({"extra": {"security.protocol": "TLS"}}, "security.protocol is none of"),
        ({"login": "me", "password": SECRET}, "is no SASL protocol"),
        ({"extra": {"sasl.oauthbearer.config": SECRET}}, "sasl.oauthbearer.config in its extra is not supported"),
    ],
)
def test_an_invalid_kafka_connection_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConnectionError, match=message) as raised:
        brokers(**given)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "extra",
    [
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
        {"security.protocol": "SSL", "ssl.ca.location": "/not/there"},
    ],
)
def test_settings_that_spark_does_not_support_are_refused(extra: dict[str, str]) -> None:
    with pytest.raises(BadConnectionError):
        brokers(extra=extra).reader_options()


def test_source_and_sink_read_the_connection_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionMissingError):
        kafka_options("shop")
    sink = KafkaSink(conn_id="shop", topic="orders", staging="/lake/staging")
    sink.validate()
    with pytest.raises(ConnectionMissingError):
        sink.bind(SinkContext("orders", "lake"))
    extra = {"bootstrap.servers": "b:9093", "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}
    connection = {"conn_type": "kafka", "login": "me", "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    assert kafka_options("shop")["kafka.bootstrap.servers"] == "b:9093"
    bound = sink.bind(SinkContext("orders", "lake"))
    assert (bound._client.servers, bound._client._settings["sasl.password"]) == ("b:9093", SECRET)
    assert SECRET not in f"{sink!r} {bound!r} {bound._client!r} {json.dumps(sink.definition())}"


@pytest.mark.parametrize("given", [{}, {"servers": "b:9092", "conn_id": "shop"}])
def test_a_kafka_sink_needs_either_servers_or_conn_id(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSinkError, match="or conn_id"):
        KafkaSink(topic="orders", staging="/lake/staging", **given).validate()
