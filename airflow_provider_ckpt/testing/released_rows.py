"""The rows that the suites of sinks stage and expect. Each batch has two rows of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

SCHEMA = "id int, city string"
Row = tuple[int, str]
Damage = Literal["cut", "deleted"]
"""The kinds of damage to staged output by a disk or a foreign process."""


def ids_of(*batches: int) -> list[int]:
    return [number for batch in batches for number in (10 * batch, 10 * batch + 1)]


def expected(ids: Iterable[int]) -> list[Row]:
    return [(number, f"city {number}") for number in ids]


def steps() -> Iterable[int]:
    """Yield more steps than a release of two small batches has. A test returns as soon as no crash occurs."""
    yield from range(1, 50)
    raise AssertionError("a release has no end")


def at_once(releases: Sequence[Callable[[], object]]) -> None:
    """Run the releases in parallel threads. Raise the first error that is not retryable."""
    start, failures = threading.Barrier(len(releases)), []

    def run(release: Callable[[], object]) -> None:
        start.wait()
        try:
            release()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(release,)) for release in releases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        # The loser of a race may find a file missing between two reads. It must retry, not fail.
        if not getattr(failure, "retryable", False):
            raise failure
