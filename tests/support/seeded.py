"""Parameters of tests that repeat one property for many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first_fast(seeds: Sequence[int], fast: int) -> list[Any]:
    """Return the seeds as parameters. All but the first ``fast`` are slow, so `make test-all` runs them."""
    return [*seeds[:fast], *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[fast:])]
