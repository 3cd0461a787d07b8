"""The check for libraries that only some sinks need."""

from __future__ import annotations

from importlib.util import find_spec

from airflow_provider_ckpt.sinks.lake.errors import MissingPackageError


def refuse_missing(sink: str, package: str, extra: str) -> None:
    """Refuse a sink whose library is not installed.

    Raises MissingPackageError.
    """
    if find_spec(package) is None:
        raise MissingPackageError(sink=sink, package=package, extra=extra)
