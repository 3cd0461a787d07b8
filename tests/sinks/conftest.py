from __future__ import annotations

import pytest

from tests.support.certificates import NOT_INSTALLED, Authority, is_openssl_installed
from tests.support.spark_driver import spark

__all__ = ["spark"]
_EACH_STEP = (
    "group_r9_a_crash_at_any_step",
    "a_release_that_crashed_at_any_step_is_finished_by_a_higher_checkpoint",
    "r5_a_release_that_crashed_is_finished_behind_a_clean_up",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most tests of databases with a crash at every step as slow, because together they take a minute.

    Of TestAppend, only the test of a release repeated by the next driver stays fast.
    """
    for item in items:
        if any(f"TestAppend::test_{one}" in item.nodeid for one in _EACH_STEP):
            item.add_marker("slow")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Create an authority that signs servers' certificates."""
    if not is_openssl_installed():
        pytest.skip(NOT_INSTALLED)
    return Authority(tmp_path_factory.mktemp("authority"))
