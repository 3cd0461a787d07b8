"""A sink that the job drops and names again, in PostgreSQL."""

from __future__ import annotations

import pytest

from tests.sinks.sql.test_returned import (
    test_r9_one_that_has_released_elsewhere_is_refused_before_anything_is_written,
    test_r9_one_that_has_released_nothing_goes_on_with_the_table_of_now,
    test_r9_under_another_uid_both_tables_have_their_own,
    test_r9_who_has_released_to_a_table_is_known_there_though_it_was_prepared_for_another,
)

pytestmark = pytest.mark.slow

__all__ = [
    "test_r9_one_that_has_released_elsewhere_is_refused_before_anything_is_written",
    "test_r9_one_that_has_released_nothing_goes_on_with_the_table_of_now",
    "test_r9_under_another_uid_both_tables_have_their_own",
    "test_r9_who_has_released_to_a_table_is_known_there_though_it_was_prepared_for_another",
]
