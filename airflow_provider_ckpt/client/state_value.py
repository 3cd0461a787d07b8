"""The state of a job as an independent value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from airflow_provider_ckpt.journal.state import JobState


def as_it_is(state: JobState) -> JobState:
    """Return a copy, because a journal changes the state that it has returned when it reads new entries."""
    return JobState(**{field.name: _copied(getattr(state, field.name)) for field in fields(state)})


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: dict(each) if isinstance(each, dict) else each for name, each in value.items()}
    return value.copy() if isinstance(value, list | set) else value
