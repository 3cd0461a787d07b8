"""A sink that no longer knows what the journal says it has released."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import OutputLostError
from airflow_provider_ckpt.sinks.sink import BoundSink


def refuse_lost_output(state: JobState, sinks: Mapping[str, BoundSink]) -> None:
    """Raises OutputLostError: its folder or its ledger was taken away, and a new one would begin as if nothing had been
    released (R9). Asked before a job that has run goes on; nothing is written. A release that brought no rows need not
    be recorded by a sink, and those that the journal no longer remembers are not asked for."""
    for uid, sink in sinks.items():
        with_rows = [n for n, event in state.releases.items() if event.sinks.get(uid, {}).get("rows")]
        if with_rows and (known := sink.last_released()) < max(with_rows):
            raise OutputLostError(sink=uid, known=known or "nothing", released=max(with_rows))
