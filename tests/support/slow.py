"""Which of the tests that are marked ``slow`` run: none of them by default.

``CKPT_SLOW``: "none", "all" (with the others), "only" (without the others), or "1/4": without the others, of them those
that ``CKPT_SLOW_SEED`` (default: 1) draws. A test that is named by its id on the command line runs.
"""

from __future__ import annotations

import os
import zlib
from fractions import Fraction

import pytest


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, seed = os.environ.get("CKPT_SLOW", "none"), os.environ.get("CKPT_SLOW_SEED", "1")
    named = tuple(argument for argument in config.args if "::" in argument)
    chosen = [item for item in items if _is_named(item, named) or is_chosen(_is_slow(item), item.nodeid, wanted, seed)]
    kept = set(map(id, chosen))
    left = [item for item in items if id(item) not in kept]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = chosen


def is_chosen(slow: bool, nodeid: str, wanted: str, seed: str) -> bool:
    if wanted in ("none", "all"):
        return not slow or wanted == "all"
    share = Fraction(1 if wanted == "only" else wanted)
    # by its name: each worker of xdist draws the same, and one more test changes nothing for the others
    return slow and zlib.crc32(f"{seed} {nodeid}".encode()) < share * (1 << 32)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _is_named(item: pytest.Item, named: tuple[str, ...]) -> bool:
    names = item.nodeid, item.nodeid.split("[")[0]
    return any(argument.endswith(names) for argument in named)
