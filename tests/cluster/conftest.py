from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.environments import borrowed
from tests.cluster.standalone import Standalone


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def executor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with only the packages promised to be enough in the executors."""
    return borrowed(tmp_path_factory.mktemp("executor") / "env", "pyspark", "py4j", "pyarrow")


@pytest.fixture(scope="session")
def driver_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with only the packages that a driver needs. The library comes with the submission."""
    return borrowed(tmp_path_factory.mktemp("driver") / "env", "pyspark", "py4j", "pyarrow", "fsspec")
