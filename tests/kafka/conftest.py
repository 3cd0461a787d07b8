"""One broker, and one Spark driver with the connector, for all tests of this folder: ``make kafka``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.secured import PASSWORD, USER, Secured
from tests.kafka.topics import Topics
from tests.spark.harness import World
from tests.support.spark_driver import started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    jars = ",".join(map(str, connector_jars()))
    session = started(tmp_path_factory.mktemp("spark"), {"spark.jars": jars})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """Start a broker with a second listener for TLS and a password. Yield it with the certificate of its authority."""
    folder = tmp_path_factory.mktemp("secured")
    with Broker(folder, secured=Secured(USER, PASSWORD)) as running:
        admin = AdminClient({"bootstrap.servers": running.servers, "log_level": 0})
        information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        given = UserScramCredentialUpsertion(USER, information, PASSWORD.encode())
        admin.alter_user_scram_credentials([given])[USER].result(60)
        yield running, folder / "ca.pem"


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker.servers)


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    return World(tmp_path)
