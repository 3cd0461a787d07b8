"""How long this process waits for new credentials of an object store when its own have expired."""

from __future__ import annotations

_SECONDS = [0.0]
"""Clients do not wait, because somebody looks at them."""


def wait_for_credentials(seconds: float) -> None:
    """Let every storage of this process wait so long. A driver does, so that it goes on by itself."""
    _SECONDS[0] = seconds


def seconds_to_wait() -> float:
    return _SECONDS[0]
