"""Longest transaction that brokers allow. Each broker is asked separately, as the client library requires."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from airflow_provider_ckpt.sinks.kafka.client import KafkaClient

LIMIT = "transaction.max.timeout.ms"


def longest_transaction(monkeypatch: pytest.MonkeyPatch, *limits: str | None) -> float | None:
    """Return the limit found for brokers with these limits. Broker ids start at 1."""
    given = {str(number): limit for number, limit in enumerate(limits, 1)}

    def describe_cluster(admin: AdminClient, **_: Any) -> Future[Any]:
        return _done(SimpleNamespace(nodes=[SimpleNamespace(id=int(broker)) for broker in given]))

    def describe_configs(admin: AdminClient, resources: list[ConfigResource], **_: Any) -> dict[Any, Future[Any]]:
        return {resource: _done({LIMIT: SimpleNamespace(value=given[resource.name])}) for resource in resources}

    monkeypatch.setattr(AdminClient, "describe_cluster", describe_cluster)
    monkeypatch.setattr(AdminClient, "describe_configs", _one_broker_a_call(describe_configs))
    return KafkaClient("sink", "127.0.0.1:1", {}, 60.0).longest_transaction()


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _one_broker_a_call(describe: Any) -> Any:
    """Wrap a fake ``describe_configs`` so that calls for several brokers get the real client's refusal."""
    real = AdminClient.describe_configs

    def described(admin: AdminClient, resources: list[ConfigResource], **given: Any) -> Any:
        return describe(admin, resources, **given) if len(resources) == 1 else real(admin, resources, **given)

    return described


def test_the_lowest_limit_of_several_brokers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_transaction(monkeypatch, "900000", "60000", "120000") == 60.0


@pytest.mark.parametrize("limit", [None, "", "unlimited"])
def test_a_broker_without_a_valid_limit_is_ignored(limit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_transaction(monkeypatch, limit) is None
    assert longest_transaction(monkeypatch, limit, "60000") == 60.0
