"""Time limits and retries of fsspec's clients. Without them, a silent endpoint blocks requests for minutes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

CONNECT_SECONDS = 10
READ_SECONDS = 30
"""Maximum wait for the next byte of an answer, in seconds."""
TRIES = 3
"""Number of tries of one request, including the first."""

_S3 = {
    "connect_timeout": CONNECT_SECONDS,
    "read_timeout": READ_SECONDS,
    "retries": {"total_max_attempts": TRIES, "mode": "standard"},
}


def with_limits(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``options`` with this package's limits where the user has set none. ``protocol``: such as ``s3``."""
    match protocol:
        case "s3":
            return _nested(options, "config_kwargs", _S3)
        case "gs" | "gcs":
            return {**_aiohttp("requests_timeout"), **options}
        case "abfs" | "abfss" | "az":
            return {"connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, **options}
        case "http" | "https":
            return _nested(options, "client_kwargs", _aiohttp("timeout"))
    return dict(options)


def s3_tries(config: Mapping[str, Any]) -> int:
    """Return the number of tries of one request under a botocore ``config``. ``max_attempts`` omits the first try."""
    retries = config.get("retries")
    if not isinstance(retries, Mapping):
        return TRIES
    return int(retries.get("total_max_attempts", retries.get("max_attempts", TRIES - 1) + 1))


def users_options(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the options that the user has set. Options with only this package's limits are left out."""
    return sorted(name for name, value in options.items() if (name, value) not in _OWN)


_OWN = (("config_kwargs", _S3), ("use_listings_cache", False))


def _nested(options: Mapping[str, Any], name: str, limits: Mapping[str, Any]) -> dict[str, Any]:
    options_given = options.get(name) or {}
    if not isinstance(options_given, Mapping):
        return dict(options)  # the client refuses the option
    return {**options, name: {**limits, **options_given}}


def _aiohttp(name: str) -> dict[str, Any]:
    """Return the limits as an option for aiohttp, whose default limit is five minutes; empty without aiohttp."""
    try:
        aiohttp = importlib.import_module("aiohttp")
    except ImportError:
        return {}
    return {name: aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)}
