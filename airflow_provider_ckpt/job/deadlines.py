"""``stop_at``, ``drain_at``, ``stop_after``, ``drain_after``: when a run is to end, and one that is late already."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from airflow_provider_ckpt.job.errors import DeadlinePassedError
from airflow_provider_ckpt.job.options import RunOptions

Ending = Literal["stop", "drain"]


@dataclass(frozen=True)
class Passed:
    """A time that was over before the run began: ``option`` stop_at or drain_at."""

    option: str
    at: datetime


def passed(options: RunOptions, now: float) -> Passed | None:
    """``now``: epoch seconds of the wall clock."""
    for option, at in (("stop_at", options.stop_at), ("drain_at", options.drain_at)):
        if at is not None and at.timestamp() <= now:
            return Passed(option, at)
    return None


def check_deadlines(options: RunOptions, live: Collection[str], *, is_new: bool, now: float) -> None:
    """Raises DeadlinePassedError for the first run of a job whose time was over before it: ``stop_at`` would let it
    read nothing, and ``drain_at`` would end the ``live`` sources (uids of the unbounded ones) for good before they
    have read anything, and both be called a success. Called before anything is written. A later run of the job (a
    retry of a task, say) ends at once instead, with a savepoint of what it took over, or drains: refusing it would
    fail a job that does what it was asked for. Bounded sources are read to their ends whenever a drain comes.
    """
    over = passed(options, now)
    if not is_new or over is None or (over.option == "drain_at" and not live):
        return
    reader = "it" if over.option == "stop_at" else f"its live sources ({', '.join(sorted(live))})"
    raise DeadlinePassedError(
        job_id=options.job_id,
        option=over.option,
        at=over.at.isoformat(),
        now=datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="seconds"),
        reader=reader,
    )


def due(options: RunOptions, *, ran: float, now: float) -> Ending | None:
    """What a run that is RUNNING for ``ran`` seconds is to do. ``now``: epoch seconds of the wall clock."""
    over = passed(options, now)
    if over is not None:
        return "stop" if over.option == "stop_at" else "drain"
    if options.stop_after is not None and ran >= options.stop_after:
        return "stop"
    if options.drain_after is not None and ran >= options.drain_after:
        return "drain"
    return None
