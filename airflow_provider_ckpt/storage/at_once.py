"""Parallel calls of one function, for calls that wait for a disk or a distant store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def each_at_once(act: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Return the result of ``act`` for each of ``items``, in their order, on up to ``threads`` threads.

    Raises the error of a failed call after the calls in progress have ended. No further call is begun.
    """
    if threads < 2 or len(items) < 2:
        return [act(item) for item in items]
    has_failed = threading.Event()

    def unless_failed(item: Item) -> list[Result]:
        if has_failed.is_set():
            return []
        try:
            return [act(item)]
        except BaseException:
            has_failed.set()
            raise

    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="ckpt-at-once") as pool:
        return [result for results in pool.map(unless_failed, items) for result in results]
