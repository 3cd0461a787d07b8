"""What may be said of a random definition instead of running it: refusals that are documented, by their error and a
part of their message. Anything else that ends a job before its end is a finding."""

from __future__ import annotations

import re

from airflow_provider_ckpt.errors import InvalidInputError

KNOWN: tuple[tuple[str, str], ...] = (
    ("HeldWatermarkError", "event time would stand still"),
    ("WatermarkOverUnionError", "behind the union of a bounded and a live source"),
    ("UnsupportedQueryError", "not supported with streaming"),
    ("UnsupportedQueryError", "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
    ("UnsupportedQueryError", "Multiple applyInPandasWithStates are not supported"),
    ("UnsupportedQueryError", "in batch mode: .*(not supported|unsupported)"),
)


def known(error: InvalidInputError) -> bool:
    name, message = type(error).__name__, str(error)
    return any(name == kind and re.search(part, message) for kind, part in KNOWN)


def known_message(message: str) -> bool:
    """Of a driver in another process, which tells no class."""
    return any(re.search(part, message) for _, part in KNOWN)
