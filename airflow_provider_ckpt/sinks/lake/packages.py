"""Libraries that a sink needs and this package does not."""

from __future__ import annotations

from importlib.util import find_spec

from airflow_provider_ckpt.sinks.lake.errors import MissingPackageError


def refuse_missing(sink: str, package: str, extra: str) -> None:
    """Raises MissingPackageError."""
    if find_spec(package) is None:
        raise MissingPackageError(sink=sink, package=package, extra=extra)
