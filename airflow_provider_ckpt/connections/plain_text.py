"""Warnings about passwords, tokens and rows that travel without TLS."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_WARNED: set[str] = set()


def is_on_this_machine(host: object) -> bool:
    """Return True if ``host`` is empty, a loopback address, or a folder of sockets."""
    text = str(host or "").strip("[]").lower()
    return text in _LOCAL or text.startswith(("/", "127."))


def warn_once(message: str) -> None:
    """Log a warning, unless this process has logged it before. Each start of a query would otherwise repeat it."""
    if message not in _WARNED:
        _WARNED.add(message)
        log.warning("%s", message)
