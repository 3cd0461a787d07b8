from __future__ import annotations

import pytest

from tests.support.certificates import NOT_INSTALLED, Authority, is_openssl_installed
from tests.support.spark_driver import spark

__all__ = ["spark"]
_EACH_STEP = (
    "test_group_r9_a_crashed_release_is_atomic_and_the_next_completes_it",
    "test_group_r9_a_higher_checkpoint_completes_a_crashed_release",
    "test_a_higher_checkpoint_completes_a_release_that_crashed_at_any_step",
    "test_r5_a_crashed_release_is_completed_after_a_clean_up",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most tests of databases with a crash at every step as slow, because together they take a minute.

    Of TestAppend, only the test of a release repeated by the next driver stays fast.
    """
    for item in items:
        if any(f"TestAppend::{step_test}" in item.nodeid for step_test in _EACH_STEP):
            item.add_marker("slow")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Create an authority that signs servers' certificates."""
    if not is_openssl_installed():
        pytest.skip(NOT_INSTALLED)
    return Authority(tmp_path_factory.mktemp("authority"))
