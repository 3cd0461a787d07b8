"""Known refusals: documented errors of random definitions, each with a part of its message.

Anything else that ends a job early is a finding.
"""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import InvalidInputError

KNOWN: tuple[tuple[str, str], ...] = (
    ("UnsupportedQueryError", "event time would never advance"),
    ("UnsupportedQueryError", "after the union of a bounded and a live source"),
    ("UnsupportedQueryError", "not supported with streaming"),
    ("UnsupportedQueryError", "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
    ("UnsupportedQueryError", "not supported in Complete output mode"),
    ("UnsupportedQueryError", "Multiple applyInPandasWithStates are not supported"),
    ("UnsupportedQueryError", "in batch mode: .*(not supported|unsupported)"),
)


def known(error: InvalidInputError) -> bool:
    name, message = type(error).__name__, str(error)
    return any(name == kind and re.search(part, message) for kind, part in KNOWN)


def known_message(message: str) -> bool:
    """Return whether the refusal is known. Drivers in other processes report no error class."""
    return any(re.search(part, message) for _, part in KNOWN)
