"""Thread pools for short calls that wait for a disk or for the storage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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


MOST = 16
"""Most pieces at a time. Several syncs of one disk together cost little more than one."""


class SideBySide:
    """A pool of threads for one caller at a time.

    ``name`` is the prefix of its threads, which start when they are first needed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def run(self, pieces: Sequence[Callable[[], None]]) -> None:
        """Do all pieces and return when all are done, so that none continues after the call.

        Raises the error of the first failed piece in the given order, after all others are done.
        """
        if len(pieces) < 2:
            for piece in pieces:
                piece()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST, thread_name_prefix=self._name)
        done: list[Future[None]] = [self._pool.submit(piece) for piece in pieces]
        wait(done)
        for one in done:
            one.result()

    def close(self) -> None:
        """End the threads. No piece is in progress."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
