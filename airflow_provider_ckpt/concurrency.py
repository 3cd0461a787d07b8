"""Helpers that run calls in threads: calls that wait for a disk or for the storage, and calls that may hang."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
log = logging.getLogger(__name__)
MOST = 16
"""Maximum number of threads in a pool. A disk takes little longer for several syncs at once than for one."""


def map_parallel(act: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """Return the result of ``act`` for each of ``items``, in their order, on up to ``threads`` threads.

    After a call has failed, no further call begins. When the calls in progress have ended, the error of the first
    failed item is raised.
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


def answer_within(seconds: float, ask: Callable[[], Result]) -> Result | None:
    """Return the result of ``ask``, called in a daemon thread.

    None if ``ask`` fails or takes longer than ``seconds``.
    """
    answers: list[Result] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), name="ckpt-asking", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


class DaemonThreads:
    """The daemon threads that one object has started. A thread that hangs does not delay the end of the process."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def join(self, seconds: float) -> None:
        """Wait up to ``seconds`` in total for the end of all threads. Log a warning for each that still runs."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.warning("%s has not ended within %g s, and is abandoned", thread.name, seconds)


class TaskThreads:
    """A pool of threads for one caller at a time. The first use starts threads whose names begin with ``name``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def run(self, pieces: Sequence[Callable[[], None]]) -> None:
        """Run all pieces in parallel, and return when all have ended.

        Raises the error of the first failed piece in the given order, after all pieces have ended.
        """
        if len(pieces) < 2:
            for piece in pieces:
                piece()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST, thread_name_prefix=self._name)
        futures: list[Future[None]] = [self._pool.submit(piece) for piece in pieces]
        wait(futures)
        for future in futures:
            future.result()

    def close(self) -> None:
        """End the threads. No piece of work may be in progress."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
