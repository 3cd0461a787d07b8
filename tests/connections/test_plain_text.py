"""Warnings about connections without TLS."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_ckpt.connections import plain_text
from airflow_provider_ckpt.connections.connection import Connection
from airflow_provider_ckpt.gates.airflow_api import AirflowApi
from airflow_provider_ckpt.sinks.postgres.postgres_sink import PostgresSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.sinks.sql.sql_sink import SqlSink


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of earlier tests."""
    monkeypatch.setattr(plain_text, "_WARNED", set())
    monkeypatch.delenv("PGSSLMODE", raising=False)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("host", "is_warned"),
    [
        ("airflow.example.org", True),
        ("http://airflow.example.org:8080/base", True),
        ("https://airflow.example.org", False),
        ("localhost:8080", False),
        ("http://127.0.0.1:8080", False),
    ],
)
def test_d22_a_gate_over_plain_http_warns_once(host: str, is_warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        AirflowApi(Connection("airflow_api", "http", host, login="me", password="s3cr3tPW"))
    assert len(warnings(caplog)) == is_warned
    assert not is_warned or "'airflow_api'" in caplog.text
    assert not is_warned or "without TLS" in caplog.text
    assert "s3cr3tPW" not in caplog.text


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("postgresql://me:s3cr3tPW@db.example.org/shop", True),
        ("postgresql://me:s3cr3tPW@localhost,db.example.org/shop", True),
        ("postgresql://me:s3cr3tPW@db.example.org/shop?sslmode=verify-full", False),
        ("postgresql://me:s3cr3tPW@db.example.org/shop?sslmode=disable", False),
        ("postgresql://me:s3cr3tPW@localhost/shop", False),
        ("postgresql:///shop?host=/run/postgresql", False),
        ("mysql://me:s3cr3tPW@db.example.org/shop", True),
        ("mysql://me:s3cr3tPW@db.example.org/shop?ssl_ca=/etc/ssl/certs/ca-certificates.crt", False),
        ("mysql://me:s3cr3tPW@db.example.org/shop?ssl_disabled=true", False),
        ("mysql://me:s3cr3tPW@127.0.0.1/shop", False),
        ("sqlite:////tmp/shop.db", False),
    ],
)
def test_d22_a_database_connection_without_tls_warns_once(
    url: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kind: Any = PostgresSink if url.startswith("postgresql") else SqlSink
    pytest.importorskip("psycopg" if kind is PostgresSink else "pymysql")
    for _ in range(2):
        kind("orders", url=url).bind(SinkContext("j", "lake"))
    assert len(warnings(caplog)) == is_warned
    assert not is_warned or "sink 'lake'" in caplog.text
    assert "s3cr3tPW" not in caplog.text


def test_d22_pgsslmode_prevents_the_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGSSLMODE", "require")
    PostgresSink("orders", url="postgresql://me@db.example.org/shop").bind(SinkContext("j", "lake"))
    assert warnings(caplog) == []
