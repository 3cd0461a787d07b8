"""Sets of places in a list of splits, written as ranges."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_ckpt.model.split import difference, numbers, ranges, union


@pytest.mark.parametrize("seed", range(50))
def test_the_difference_of_ranges_is_the_difference_of_their_numbers(seed: int) -> None:
    random = Random(seed)
    first, second = ({n for n in range(20) if random.random() < 0.5} for _ in range(2))
    result = difference(ranges(first), ranges(second))
    assert numbers(result) == first - second, f"seed {seed}"
    assert result == ranges(first - second), f"seed {seed}"


@pytest.mark.parametrize("seed", range(100))
def test_the_union_of_ranges_is_the_union_of_their_numbers(seed: int) -> None:
    """The test also adds a single range, which must be inserted in its place."""
    random = Random(seed)
    first = {n for n in range(20) if random.random() < 0.5}
    start = random.randint(0, 20)
    second = (
        set(range(start, random.randint(start, 20))) if seed % 2 else {n for n in range(20) if random.random() < 0.3}
    )
    result = union(ranges(first), ranges(second))
    assert result == ranges(first | second), f"seed {seed}"
    assert result == union(list(ranges(first)), list(ranges(second)))
