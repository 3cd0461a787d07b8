"""Jobs that grow old, in the Spark driver of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import world
from tests.support.spark_driver import spark

__all__ = ["spark", "world"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.soak)
