"""Options by which the package ``deltalake`` reaches a folder that fsspec reaches. Pure functions, no I/O."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.storage.opening import canonical_uri

_UNSAFE = "aws_s3_allow_unsafe_rename"
_S3 = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
}


def delta_options(uri: str, storage_options: Mapping[str, Any], given: Mapping[str, str] | None) -> dict[str, str]:
    """Return options for ``deltalake``: the given ones, or on S3 those made from the fsspec options.

    Raises InvalidSinkError for an option with which two commits may both succeed.
    """
    found = {name: str(value) for name, value in (given or {}).items()}
    if given is None and canonical_uri(uri).startswith("s3://"):
        found = _of_s3(storage_options)
    _refuse_unsafe(found)
    return found


def _of_s3(options: Mapping[str, Any]) -> dict[str, str]:
    client = options.get("client_kwargs")
    flat = {**(client if isinstance(client, Mapping) else {}), **options}
    found = {name: str(flat[ours]) for ours, name in _S3.items() if flat.get(ours)}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    if flat.get("anon"):
        found["AWS_SKIP_SIGNATURE"] = "true"
    return found


def _refuse_unsafe(options: Mapping[str, str]) -> None:
    """Refuse ``AWS_S3_ALLOW_UNSAFE_RENAME``, in the options or the environment. The library itself accepts it."""
    for where, known in (("delta_options", options), ("the environment", os.environ)):
        for name, value in known.items():
            if name.lower() == _UNSAFE and value.strip().lower() in ("true", "1", "yes"):
                reason = f"in {where} lets two commits of one version both succeed, and the first is lost; remove it"
                raise InvalidSinkError(sink="DeltaSink", setting=name, value=value, reason=reason)
