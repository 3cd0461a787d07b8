"""Which seeds this run takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def seeds(variable: str, default: int) -> range:
    """So many as the environment's ``variable`` says, from ``CKPT_RANDOM_SEED`` on."""
    first = int(os.environ.get("CKPT_RANDOM_SEED", "1"))
    return range(first, first + int(os.environ.get(variable, str(default))))


@contextmanager
def telling(told: str) -> Iterator[None]:
    """Print the job before it runs, and again with what was found."""
    print(f"\n{told}")
    try:
        yield
    except BaseException as error:
        print(f"FOUND {type(error).__name__}: {str(error)[:2000]}\nby {told}")
        raise
