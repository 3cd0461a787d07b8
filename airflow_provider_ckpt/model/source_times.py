"""What a query with state has seen of the event time of one of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import LATER
from airflow_provider_ckpt.model.limits import Count, Instant


@dataclass(frozen=True)
class SourceTimes:
    """Counts of rows are since the query's first micro-batch. Event times are epoch milliseconds."""

    newest: int | None = None
    """The newest event time that may move the watermark. None: no row had one."""
    delay: int = field(default=0, metadata=LATER)
    """Of the watermark, in milliseconds."""
    last_row_at: Instant | None = None
    """When the last micro-batch with a row of the input ran, in epoch seconds."""
    ahead: Count = field(default=0, metadata=LATER)
    """Rows further ahead of the clock than the source's ``max_ahead``."""
    without: Count = field(default=0, metadata=LATER)
    """Rows without an event time."""
    before_1970: Count = field(default=0, metadata=LATER)
    """Rows that Spark takes for late from the beginning."""

    @property
    def watermark(self) -> int | None:
        """Event time up to which the input lets its query advance, in epoch milliseconds."""
        return None if self.newest is None else self.newest - self.delay

    @property
    def unfit(self) -> int:
        """Rows whose event time their query cannot go by."""
        return self.ahead + self.without + self.before_1970

    def then(self, later: SourceTimes) -> SourceTimes:
        """Return what was seen with ``later`` added to it."""
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
"""Source or edge uid -> what its rows have shown."""


def combined(before: TimesByInput, later: TimesByInput) -> dict[str, SourceTimes]:
    """Return the times of all inputs after a micro-batch that has seen ``later``."""
    return {**before, **{uid: before.get(uid, SourceTimes()).then(times) for uid, times in later.items()}}
