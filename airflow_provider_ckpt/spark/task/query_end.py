"""How a query comes to its end: whether that is our doing, and what a batch of it has raised."""

from __future__ import annotations


class QueryEnd:
    """Of the queries of one attempt, one after the other.

    Told by the runner's own thread, which starts them and stops them between two batches (``begin``, ``going_on``,
    ``expect``, ``interrupt``); by the driver's loop, of one that ran out (``expect``); by the loop or the thread of a
    restart, of the end of the run (``give_up``); by Spark's thread, of what a batch raised (``batch_failed``). Asked by
    all of them.

    No lock: each fact is one assignment, and ``begin`` takes two of them back while no query runs. That the run is over
    is a fact of its own, and never taken back: it may be told while the next query is being started.
    """

    def __init__(self) -> None:
        self._for_good = False
        self._expected = True
        self._interrupted = False
        self._failure: BaseException | None = None

    # -- what is told

    def begin(self) -> None:
        """A query is about to be started: what was said of the one before is over, but that its end is expected."""
        self._failure = None
        self._interrupted = False

    def going_on(self) -> None:
        """It runs, and is to run on: if it ends now, it has failed."""
        self._expected = False

    def expect(self) -> None:
        """It ends, or has ended, and has not failed. Said before it is stopped."""
        self._expected = True

    def interrupt(self) -> None:
        """It is about to be stopped by us: what a batch fails with from here on is an interruption."""
        self._interrupted = True

    def give_up(self) -> None:
        """The run is over: all of that, for this query and for any that is being started."""
        self._for_good = True

    def batch_failed(self, error: BaseException) -> None:
        """What ``foreachBatch`` raised; Spark tells it only wrapped."""
        self._failure = error

    # -- what is asked

    @property
    def is_for_good(self) -> bool:
        """The run is over."""
        return self._for_good

    @property
    def is_expected(self) -> bool:
        """That it has ended is no failure."""
        return self._expected or self._for_good

    @property
    def is_interrupted(self) -> bool:
        """What a batch fails with is an interruption."""
        return self._interrupted or self._for_good

    @property
    def failure(self) -> BaseException | None:
        return self._failure
