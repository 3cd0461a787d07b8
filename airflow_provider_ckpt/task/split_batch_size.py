"""How many splits a subtask reads together: as many as take a few seconds, by what it has measured. No clock here.

A Spark job takes a while however little it reads, on a cluster or an object store a second and more. So how long one
split takes does not say whether it is small: two are tried, and more if two together took not much longer than one.
"""

from __future__ import annotations

SMALL = 3.0
"""Seconds. One that takes as long is always read alone."""
SHORT = 3.0
"""Seconds that those read together take, or half as long again as one alone."""
_GAINS = 1.5
_TOO_LONG = 2
_FASTER = 4
"""So many times as many would still take less than is wanted, if all of the time went into rows."""
_GIVEN_UP = 3
_WHILE = 4


class SplitBatchSize:
    """Of one attempt. ``most``: as many as the user lets it read together.

    What is lost if the driver dies is what was being read: of small ones what takes a few seconds, or up to
    :attr:`patience` of those that are not as the ones before."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 1
        self._one = 0.0
        """Seconds that one alone takes, the last ones above all."""
        self._failures = 0
        self._still_alone = 0

    @property
    def now(self) -> int:
        return self._now

    @property
    def patience(self) -> float:
        """Seconds. What is read together and takes longer is given up, and read one by one."""
        return _GIVEN_UP * self._wanted

    @property
    def _wanted(self) -> float:
        return max(SHORT, _GAINS * self._one)

    def took(self, count: int, seconds: float) -> None:
        """So many were read together, in that time."""
        if count == 1:
            self._alone(seconds)
        elif count == 2 and seconds > _GAINS * self._one:
            self._stay_alone(_WHILE)  # two jobs would have taken about as long; or the machine was busy just then
        elif seconds > _TOO_LONG * self._wanted:
            self._now = max(1, min(self._now, int(count * self._wanted / seconds)))
        elif count == self._now and seconds < self._wanted:
            self._now = min((_FASTER if seconds < self._wanted / _FASTER else 2) * count, self._most)

    def failed(self) -> None:
        """Those that were read together failed, or were given up: they are read one by one, and some that follow."""
        self._stay_alone(_WHILE * _WHILE << min(self._failures, 20))  # the next time for twice as many
        self._failures += 1

    def _alone(self, seconds: float) -> None:
        self._one = seconds if not self._one else (self._one + seconds) / 2
        self._still_alone = max(0, self._still_alone - 1)
        if self._now == 1 and not self._still_alone and self._one < SMALL:
            self._now = min(2, self._most)

    def _stay_alone(self, splits: int) -> None:
        self._now, self._still_alone = 1, splits
