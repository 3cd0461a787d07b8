"""Sets of places in a list of splits, as ranges."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_ckpt.model.split import difference, numbers, ranges


@pytest.mark.parametrize("seed", range(50))
def test_a_difference_is_that_of_the_numbers(seed: int) -> None:
    random = Random(seed)
    one, other = ({n for n in range(20) if random.random() < 0.5} for _ in range(2))
    found = difference(ranges(one), ranges(other))
    assert numbers(found) == one - other, f"seed {seed}"
    assert found == ranges(one - other), f"seed {seed}"
