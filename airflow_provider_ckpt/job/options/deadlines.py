"""The deadlines of a run: ``stop_at``, ``stop_after``, ``drain_at`` and ``drain_after``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.option import Ending
from airflow_provider_ckpt.job.options.run_options import OPTIONS, RunOptions


@dataclass(frozen=True)
class DeadlinePassed:
    """A time that has passed, with its option (``stop_at`` or ``drain_at``) and the way in which it ends the run."""

    option: str
    ends: Ending
    at: datetime


def passed(options: RunOptions, now: float) -> DeadlinePassed | None:
    """Return the first time in ``options`` that has passed at ``now`` (epoch seconds of the wall clock), or None."""
    times = [DeadlinePassed(name, ends, at) for name, ends, at in _given(options, kinds.TIME)]
    return next((time for time in times if time.at.timestamp() <= now), None)


def _given(options: RunOptions, kind: kinds.Kind) -> Iterator[tuple[str, Ending, Any]]:
    """Yield (option, way to end, value) of each deadline of ``kind`` (a time or a duration) that is set."""
    for option in OPTIONS:
        value = getattr(options, option.name)
        if option.ends is not None and option.kind is kind and value is not None:
            yield option.name, option.ends, value


def check_deadlines(options: RunOptions, live: Collection[str], *, is_new: bool, now: float) -> None:
    """Refuse the first run of a job if its ``stop_at`` or ``drain_at`` has passed.

    A stop would let the job read nothing. A drain would end the ``live`` sources before they have read anything. Both
    would look like a success. A drain without live sources is allowed, because bounded sources are read to their ends.

    A later run (a retry of a task, for example) is not refused. It ends at once with a savepoint, or drains.

    ``live`` has the uids of the unbounded sources. ``now`` is in epoch seconds of the wall clock.
    """
    deadline = passed(options, now)
    if not is_new or deadline is None or (deadline.ends == "drain" and not live):
        return
    reader = "it" if deadline.ends == "stop" else f"its live sources ({', '.join(sorted(live))})"
    raise BadOptionError(
        "{option}={at} has passed (it is {now} now), and job {job_id!r} has not run: {reader} would read nothing. "
        "Give a time in the future",
        job_id=options.job_id,
        option=deadline.option,
        at=deadline.at.isoformat(),
        now=datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="seconds"),
        reader=reader,
    )


def due(options: RunOptions, *, elapsed: float, now: float) -> Ending | None:
    """Return how a run must end ("stop" or "drain"). None if no deadline has passed.

    ``elapsed`` is in seconds since the run's first published batch, ``now`` in epoch seconds of the wall clock.
    """
    deadline = passed(options, now)
    if deadline is not None:
        return deadline.ends
    return next((ends for _, ends, duration in _given(options, kinds.DURATION) if elapsed >= duration), None)
