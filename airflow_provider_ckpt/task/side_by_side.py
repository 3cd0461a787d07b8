"""Short pieces of work that wait for the storage, done in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

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
