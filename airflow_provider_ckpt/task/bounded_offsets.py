"""The unread rows of a bounded Kafka source that a query reads (R2), and the times to check that they still exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.backoff import backoff
from airflow_provider_ckpt.sparkfiles.errors import DamagedOffsetError
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object
from airflow_provider_ckpt.storage.refusal import refused_as

FIRST_CHECK = 30.0
LONGEST_PAUSE = 600.0
"""Longest pause in seconds between two checks of a source that has unread input but makes no progress."""


@dataclass
class BoundedWait:
    """The times at which to check whether one source's unread input still exists."""

    _unread: object = None
    _checks: int = 0
    _due_at: float = 0.0

    def is_due(self, unread: object, now: float) -> bool:
        """Return True, one time for each check, if a check is due at ``now``. Callers may poll this.

        The first check is due after ``FIRST_CHECK`` seconds without progress. Each later pause is twice as
        long, at most ``LONGEST_PAUSE``. ``unread`` is the unread input, or a false value if there is none.
        """
        if unread != self._unread:
            self._unread, self._checks, self._due_at = unread, 0, now + FIRST_CHECK
        if not unread or now < self._due_at:
            return False
        self._checks += 1
        self._due_at = now + backoff(self._checks, 2 * FIRST_CHECK, LONGEST_PAUSE)
        return True


@dataclass
class BoundedOffsets:
    """The progress of a bounded Kafka source.

    ``remaining`` maps (topic, partition) → frozen end offset, for the ends that no published batch has reached.
    """

    uid: str
    remaining: Mapping[tuple[str, int], int]
    _offset: str | None = None
    _wait: BoundedWait = field(default_factory=BoundedWait)
    _last_check: tuple[str | None, str | None] = (None, None)

    def read(self, offset: str | None) -> None:
        """Record that Spark has committed a batch up to ``offset`` (the source's own JSON), perhaps beyond the ends."""
        self._offset = offset
        body = offset_object(offset)
        if offset is None or body is None:
            return
        with refused_as(lambda why: DamagedOffsetError(offset=offset[:80], problem=why)):
            self.remaining = {
                (topic, number): end
                for (topic, number), end in self.remaining.items()
                if int(body.get(topic, {}).get(str(number), 0)) < end
            }

    def at_end(self) -> bool:
        return not self.remaining

    @property
    def left(self) -> int | None:
        """Number of unread Kafka records before the frozen ends; None before the first batch, which shows the start."""
        body = offset_object(self._offset)
        if body is None:
            return None if self.remaining else 0
        return sum(
            max(0, end - int(body.get(topic, {}).get(str(number), end)))
            for (topic, number), end in self.remaining.items()
        )

    def is_stuck(self, now: float) -> bool:
        """Return True if it is time to check that the topics still have the remaining rows. Callers may poll this."""
        return self._wait.is_due(self.remaining and (self.remaining, self._offset), now)

    def has_lost_rows(self, reason: str | None) -> bool:
        """Return True if the remaining rows no longer exist.

        ``reason`` is the result of a check: the reason why rows are lost, or None. Two checks without progress must
        agree, because a broker that has just started may not know an existing topic.
        """
        check = (reason, self._offset)
        is_again, self._last_check = check == self._last_check, check
        return reason is not None and is_again
