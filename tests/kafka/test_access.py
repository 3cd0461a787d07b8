"""Brokers that a KafkaSink does not trust, and brokers that deny it access."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt import KafkaSink
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.kafka import client
from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from tests.kafka.broker import Broker
from tests.kafka.secured import PASSWORD, USER
from tests.kafka.topics import Topics
from tests.support.certificates import NOT_INSTALLED, Authority, is_openssl_installed

ROWS = SinkInput("lake", (("value", "string"),))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_WITHIN", 4.0)


def bound(servers: str, topic: str, certificate: Path, staging: Path, password: str = PASSWORD) -> BoundKafkaSink:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": USER}
    config = {**settings, "sasl.password": password, "ssl.ca.location": str(certificate)}
    return KafkaSink(servers, topic, str(staging), config=config).bind(SinkContext("orders", "lake"))


def test_a_broker_certificate_of_another_authority_is_refused(secured: tuple[Broker, Path], tmp_path: Path) -> None:
    if not is_openssl_installed():
        pytest.skip(NOT_INSTALLED)
    broker, _ = secured
    topic, another = Topics(broker.servers).make(), Authority(tmp_path).keys.certificate
    sink = bound(broker.secured_servers, topic, another, tmp_path / "staging")
    for check in (sink.check_target, lambda: sink.check_rows(ROWS), sink.prepare):
        with pytest.raises(SinkUnavailableError, match=r"sink lake: .*certificate verify failed") as raised:
            check()
        assert raised.value.retryable
    assert not [path for path in (tmp_path / "staging").rglob("*") if path.is_file()]


def test_the_error_for_a_wrong_password_does_not_show_it(secured: tuple[Broker, Path], tmp_path: Path) -> None:
    broker, certificate = secured
    sink = bound(broker.secured_servers, Topics(broker.servers).make(), certificate, tmp_path, "s3cr3tToo")
    with pytest.raises(SinkUnavailableError, match=r"_AUTHENTICATION: .*Authentication failed") as raised:
        sink.check_target()
    assert "s3cr3t" not in str(raised.value)


def test_a_listener_without_tls_is_a_retryable_error(secured: tuple[Broker, Path], tmp_path: Path) -> None:
    """The failure is retryable, because a broker that is about to restart drops the connection in the same way."""
    broker, certificate = secured
    sink = bound(broker.servers, Topics(broker.servers).make(), certificate, tmp_path)
    with pytest.raises(SinkUnavailableError, match=r"failed: .*SSL handshake failed: Disconnected") as raised:
        sink.check_target()
    assert raised.value.retryable
