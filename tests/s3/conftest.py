from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3.jars import hadoop_aws
from tests.s3.store import Bucket, Server


@pytest.fixture(scope="session")
def jars() -> Path:
    return hadoop_aws()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def bucket(server: Server) -> Bucket:
    return server.bucket()
