"""Clean-up of texts in events that come from Spark, from libraries or from the user's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ckpt.printable import without_colours
from airflow_provider_ckpt.storage.redaction import redact_given

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.events import Event

_TEXTS = ("cause", "reason", "why")


def cleaned(event: Event) -> Event:
    """Return the event without secrets of this driver, passwords in URIs and colours in its texts."""
    given = {name: text for name in _TEXTS if isinstance(text := getattr(event, name, None), str)}
    shown = {name: without_colours(redact_given(text)) for name, text in given.items()}
    if shown == given:
        return event
    changed: Event = replace(event, **shown)  # type: ignore[arg-type]
    return changed
