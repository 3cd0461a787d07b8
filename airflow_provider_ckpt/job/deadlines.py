"""When a run is to end (``stop_at``, ``drain_after``, …), and one that is late already."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ckpt.job import kinds
from airflow_provider_ckpt.job.errors import DeadlinePassedError
from airflow_provider_ckpt.job.option import Ending
from airflow_provider_ckpt.job.options import OPTIONS, RunOptions


@dataclass(frozen=True)
class Passed:
    """A time that was over before the run began, and what it would have ended the run by."""

    option: str
    ends: Ending
    at: datetime


def passed(options: RunOptions, now: float) -> Passed | None:
    """``now``: epoch seconds of the wall clock."""
    times = [Passed(name, ends, at) for name, ends, at in _given(options, kinds.TIME)]
    return next((one for one in times if one.at.timestamp() <= now), None)


def _given(options: RunOptions, kind: kinds.Kind) -> Iterator[tuple[str, Ending, Any]]:
    """Name, what it ends the run by, and value."""
    for option in OPTIONS:
        value = getattr(options, option.name)
        if option.ends is not None and option.kind is kind and value is not None:
            yield option.name, option.ends, value


def check_deadlines(options: RunOptions, live: Collection[str], *, is_new: bool, now: float) -> None:
    """Raises DeadlinePassedError for the first run of a job whose time was over before it: ``stop_at`` would let it
    read nothing, and ``drain_at`` would end the ``live`` sources (uids of the unbounded ones) for good before they
    have read anything, and both be called a success. Called before anything is written. A later run of the job (a
    retry of a task, say) ends at once instead, with a savepoint of what it took over, or drains: refusing it would
    fail a job that does what it was asked for. Bounded sources are read to their ends whenever a drain comes.
    """
    over = passed(options, now)
    if not is_new or over is None or (over.ends == "drain" and not live):
        return
    reader = "it" if over.ends == "stop" else f"its live sources ({', '.join(sorted(live))})"
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
        return over.ends
    return next((ends for _, ends, after in _given(options, kinds.DURATION) if ran >= after), None)
