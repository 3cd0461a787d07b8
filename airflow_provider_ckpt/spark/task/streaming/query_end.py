"""Facts about the end of a query: whether this package has ended it, and the error that a batch has raised."""

from __future__ import annotations


class QueryEnd:
    """The end of the current query of an attempt.

    These threads set the facts, and all of them read the facts:

    * the runner's own thread, which starts queries and stops them between two batches: ``begin``, ``going_on``,
      ``expect``, ``interrupt``;
    * the driver's loop, for a query that has read all of its input: ``expect``;
    * the driver's loop or the thread of a restart, at the end of the run: ``give_up``;
    * Spark's thread, for an error of a batch: ``batch_failed``.

    No lock is needed. Each fact is one assignment, and ``begin`` resets two of them while no query runs. The end of the
    run is a separate fact that is never reset, because it may be set while the next query starts.
    """

    def __init__(self) -> None:
        self._for_good = False
        self._expected = True
        self._interrupted = False
        self._failure: BaseException | None = None

    # -- facts that are set

    def begin(self) -> None:
        """Reset the failure and the interruption before a query starts. The end of the query stays expected."""
        self._failure = None
        self._interrupted = False

    def going_on(self) -> None:
        """Note that the query runs and must continue. If it ends now, it has failed."""
        self._expected = False

    def expect(self) -> None:
        """Note that an end of the query is no failure. Call this before the query is stopped."""
        self._expected = True

    def interrupt(self) -> None:
        """Note that this package is about to stop the query. An error of a batch is an interruption from now on."""
        self._interrupted = True

    def give_up(self) -> None:
        """Note that the run is over. This query, and any query that is starting, is expected to end."""
        self._for_good = True

    def batch_failed(self, error: BaseException) -> None:
        """Keep the error that ``foreachBatch`` raised, because Spark reports it only in a wrapper."""
        self._failure = error

    # -- facts that are read

    @property
    def is_for_good(self) -> bool:
        """True if the run is over."""
        return self._for_good

    @property
    def is_expected(self) -> bool:
        """True if an end of the query is no failure."""
        return self._expected or self._for_good

    @property
    def is_interrupted(self) -> bool:
        """True if an error of a batch is an interruption."""
        return self._interrupted or self._for_good

    @property
    def failure(self) -> BaseException | None:
        return self._failure
