"""Refusal to run when the journal and a sink disagree about released checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.sinks.sink import BoundSink


def refuse_lost_output(state: JobState, sinks: Mapping[str, BoundSink]) -> None:
    """Refuse a sink that lacks releases which the journal records (R9).

    A new folder or ledger would start as if nothing had been released. Called before a job that has run resumes; writes
    nothing. Releases without rows are ignored, because a sink need not record them.

    Raises OutputLostError.
    """
    for uid, sink in sinks.items():
        with_rows = [checkpoint for checkpoint, event in state.releases.items() if _has_rows(event.sinks.get(uid, {}))]
        if with_rows and (last_released := sink.last_released()) < max(with_rows):
            raise OutputLostError(
                "sink {sink!r} has {known} as its last released checkpoint, and the journal has {released}: its "
                "folder or table, or the records of its releases, were deleted or emptied. Bring them back, or run "
                "the job under another id",
                sink=uid,
                known=last_released or "nothing",
                released=max(with_rows),
            )


def _has_rows(counts: Mapping[str, int]) -> bool:
    """Return True if the release made new rows visible. ``earlier_rows`` became visible in an earlier call."""
    return counts.get("rows", 0) > counts.get("earlier_rows", 0)


def refuse_older_journal(journal: Journal, sinks: Mapping[str, BoundSink]) -> None:
    """Refuse a journal that is older than a sink's releases (R9), because the run would release their rows again.

    The sinks are read before the journal, because a live driver may complete and release a checkpoint at any moment. In
    this order, the journal's last completed checkpoint is never below a release that was read.

    Raises OutputLostError.
    """
    last_released = {uid: sink.last_released() for uid, sink in sinks.items()}
    completed = journal.refresh().last_completed
    for uid, released in last_released.items():
        if released > completed:
            raise OutputLostError(
                "sink {sink!r} has released checkpoint {known}, and the newest that the journal knows is "
                "{completed}: the root is an older copy, or another root has a job of this id. A run would release "
                "rows again that are in the output already. Nothing was written: bring the newer root back, or run "
                "the job under another id into another target",
                sink=uid,
                known=released,
                completed=completed or "none",
            )
