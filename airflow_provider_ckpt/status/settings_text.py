"""The text form of a query's changed settings."""

from __future__ import annotations

from airflow_provider_ckpt.model.vertex_settings import VertexSettings


def shown(settings: VertexSettings) -> str:
    """Return the settings as text, like ``state_partitions=8, logic of daily from v2.py:job``; "nothing" if empty."""
    values = dict(settings.changed_values())
    values.pop("logic", None)
    values.pop("digests", None)
    parts = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()]
    parts += [f"logic of {uid} from {reference}" for uid, reference in sorted(settings.logic.items())]
    return ", ".join(parts) or "nothing"
