"""Seconds that this process waits for new credentials of an object store after its own credentials have expired."""

from __future__ import annotations

_SECONDS = [0.0]
"""The wait in seconds. It is 0 in commands and sensors, which do not wait."""


def wait_for_credentials(seconds: float) -> None:
    """Set the wait for all storages of this process. A driver waits, so that it can continue without a restart."""
    _SECONDS[0] = seconds


def seconds_to_wait() -> float:
    return _SECONDS[0]
