"""Several short pieces of work of which each waits for the storage, done at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

MOST = 16
"""Pieces at a time. Syncs of one disk that come together cost little more than one alone."""


class SideBySide:
    """``name``: of its threads, which are there when there was something to do. One caller at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def run(self, pieces: Sequence[Callable[[], None]]) -> None:
        """Returns when all are done. Raises what the first of them in this order has raised, when the others are done,
        too: nothing of them goes on behind the caller."""
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
        """Nothing is under way."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
