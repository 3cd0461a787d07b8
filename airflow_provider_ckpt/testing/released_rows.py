"""What the suites of sinks stage and expect: each batch has two rows of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

SCHEMA = "id int, city string"
Row = tuple[int, str]
Damage = Literal["cut", "deleted"]
"""What a disk or a stranger does to something staged."""


def ids_of(*batches: int) -> list[int]:
    return [number for batch in batches for number in (10 * batch, 10 * batch + 1)]


def expected(ids: Iterable[int]) -> list[Row]:
    return [(number, f"city {number}") for number in ids]


def steps() -> Iterable[int]:
    """More than any release of two small batches takes; the tests leave when no crash came any more."""
    yield from range(1, 50)
    raise AssertionError("a release has no end")


def at_once(releases: Sequence[Callable[[], object]]) -> None:
    """Each in a thread of its own; raises what one of them fails with, if trying again would not help."""
    start, failures = threading.Barrier(len(releases)), []

    def run(release: Callable[[], object]) -> None:
        start.wait()
        try:
            release()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in releases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        # The loser of a race may see a file vanish between two looks; it has to try again, not to give up.
        if not getattr(failure, "retryable", False):
            raise failure
