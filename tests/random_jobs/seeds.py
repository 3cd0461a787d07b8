"""Seeds of this test run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def seeds(variable: str, default: int) -> list[int]:
    """Return as many seeds as ``variable`` says, from ``CKPT_RANDOM_SEED`` on; or those it lists ("7,12")."""
    first, *others = (int(seed) for seed in os.environ.get("CKPT_RANDOM_SEED", "1").split(","))
    count = int(os.environ.get(variable, str(default)))
    return [first, *others][:count] if others else list(range(first, first + count))


@contextmanager
def describing_failure(description: str) -> Iterator[None]:
    """Print the job before it runs, and again with a finding."""
    print(f"\n{description}")
    try:
        yield
    except BaseException as error:
        print(f"FOUND {type(error).__name__}: {str(error)[:2000]}\nby {description}")
        raise
