"""Event times of one input of a query with state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Count, Instant


@dataclass(frozen=True)
class SourceTimes:
    """Event times in the rows of one input, in epoch milliseconds. Counts of rows begin with the query's first
    micro-batch.
    """

    newest: int | None = None
    """The newest event time that may move the watermark; None if no row had one."""
    delay: int = field(default=0, metadata=OMIT_EMPTY)
    """Delay of the watermark in milliseconds."""
    last_row_at: Instant | None = None
    """When the last micro-batch with a row of the input ran, in epoch seconds."""
    ahead: Count = field(default=0, metadata=OMIT_EMPTY)
    """Rows further ahead of the clock than the source's ``max_ahead``."""
    without: Count = field(default=0, metadata=OMIT_EMPTY)
    """Rows without an event time."""
    before_1970: Count = field(default=0, metadata=OMIT_EMPTY)
    """Rows before 1970, which Spark considers late from the beginning."""

    @property
    def watermark(self) -> int | None:
        """Event time up to which the input lets its query advance, in epoch milliseconds."""
        return None if self.newest is None else self.newest - self.delay

    @property
    def unfit(self) -> int:
        """Rows with an event time that their query cannot use."""
        return self.ahead + self.without + self.before_1970

    def then(self, later: SourceTimes) -> SourceTimes:
        """Return the sum of these times and ``later``."""
        newest = [one for one in (self.newest, later.newest) if one is not None]
        return SourceTimes(
            newest=max(newest, default=None),
            delay=later.delay,
            last_row_at=self.last_row_at if later.last_row_at is None else later.last_row_at,
            ahead=self.ahead + later.ahead,
            without=self.without + later.without,
            before_1970=self.before_1970 + later.before_1970,
        )


TimesByInput = Mapping[str, SourceTimes]
"""Source or edge uid → the event times in its rows."""


def combined(before: TimesByInput, later: TimesByInput) -> dict[str, SourceTimes]:
    """Return the times of all inputs after a micro-batch with the times ``later``."""
    return {**before, **{uid: before.get(uid, SourceTimes()).then(times) for uid, times in later.items()}}
