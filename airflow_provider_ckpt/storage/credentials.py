"""The time that this process waits for new credentials of an object store when its own have expired."""

from __future__ import annotations

_SECONDS = [0.0]
"""The time in seconds. It is 0 for commands and sensors, which do not wait."""


def wait_for_credentials(seconds: float) -> None:
    """Set the wait for every storage of this process. A driver sets it and then continues without a restart."""
    _SECONDS[0] = seconds


def seconds_to_wait() -> float:
    return _SECONDS[0]
