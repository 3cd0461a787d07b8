"""How long this process waits for new credentials of an object store when its own have expired."""

from __future__ import annotations

_SECONDS = [0.0]
"""Commands and sensors do not wait."""


def wait_for_credentials(seconds: float) -> None:
    """Let every storage of this process wait so long. A driver does, and continues without a restart."""
    _SECONDS[0] = seconds


def seconds_to_wait() -> float:
    return _SECONDS[0]
