"""A sink that the job drops and names again, in PostgreSQL."""

from __future__ import annotations

import pytest

from tests.sinks.sql.test_returned import (
    test_r9_a_sink_that_has_released_to_another_table_is_refused,
    test_r9_a_sink_with_another_uid_may_use_another_table,
    test_r9_a_sink_without_releases_may_change_its_table,
    test_r9_a_tables_releases_are_known_after_preparing_another_table,
)

pytestmark = pytest.mark.slow

__all__ = [
    "test_r9_a_sink_that_has_released_to_another_table_is_refused",
    "test_r9_a_sink_with_another_uid_may_use_another_table",
    "test_r9_a_sink_without_releases_may_change_its_table",
    "test_r9_a_tables_releases_are_known_after_preparing_another_table",
]
