"""A sink and a journal that do not belong together: one of them knows less than the other."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import OutputAheadError, OutputLostError
from airflow_provider_ckpt.sinks.sink import BoundSink


def refuse_lost_output(state: JobState, sinks: Mapping[str, BoundSink]) -> None:
    """Raises OutputLostError: its folder or its ledger was taken away, and a new one would begin as if nothing had been
    released (R9). Asked before a job that has run goes on; nothing is written. A release that brought no rows need not
    be recorded by a sink, and those that the journal no longer remembers are not asked for."""
    for uid, sink in sinks.items():
        with_rows = [n for n, event in state.releases.items() if _has_rows(event.sinks.get(uid, {}))]
        if with_rows and (known := sink.last_released()) < max(with_rows):
            raise OutputLostError(sink=uid, known=known or "nothing", released=max(with_rows))


def _has_rows(counts: Mapping[str, int]) -> bool:
    """Of its own: ``earlier_rows`` the sink knows by an earlier checkpoint."""
    return counts.get("rows", 0) > counts.get("earlier_rows", 0)


def refuse_older_journal(journal: Journal, sinks: Mapping[str, BoundSink]) -> None:
    """Raises OutputAheadError: a sink has released what the journal does not know to be completed (R9). Whoever went on
    would make rows again that are in the output, and release them as soon as its numbers have passed the sink's.

    The sinks are asked first, and the journal is read after that: a driver that lives may complete, and then release,
    at any moment. A completion is never taken back, so the newest one bounds every release there was.
    """
    known = {uid: sink.last_released() for uid, sink in sinks.items()}
    completed = journal.refresh().last_completed
    for uid, released in known.items():
        if released > completed:
            raise OutputAheadError(sink=uid, known=released, completed=completed or "none")
