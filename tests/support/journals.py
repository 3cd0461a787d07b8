"""Journals that a test writes itself."""

from __future__ import annotations

from airflow_provider_ckpt.journal.events import Event
from airflow_provider_ckpt.journal.journal import Journal


def write_events(journal: Journal, *events: Event) -> None:
    """Write the events and wait until they are durable."""
    for event in events:
        journal.write(event)
    journal.flush()
