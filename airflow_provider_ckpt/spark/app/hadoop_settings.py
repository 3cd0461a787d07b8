"""Hadoop's file system settings that make Spark reach a storage as fsspec does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.storage.client_limits import CONNECT_SECONDS, READ_SECONDS, s3_tries

CREDENTIALS = frozenset({"access.key", "secret.key", "session.token", "aws.credentials.provider", "auth.profile.name"})
"""Names of the credential settings. Either the user or this package sets all of them, because they belong together."""

_LEAST_CONNECT_SECONDS = 15
"""Minimum timeout for a connection, in seconds. S3A raises a lower value to this one, with a warning."""
_PROVIDERS = "org.apache.hadoop.fs.s3a."


def hadoop_settings(uri: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Translate the fsspec ``options`` of ``uri`` into Hadoop's settings; empty for storages except S3.

    Values may be secret. Each setting applies to one bucket (``fs.s3a.bucket.<name>.…``), so no other bucket gets its
    credentials. Other options of s3fs are ignored: the user sets ``spark.hadoop.fs.s3a.…`` for Spark.
    """
    scheme, _, path = uri.partition("://")
    if scheme not in ("s3", "s3a"):
        return {}
    bucket = path.partition("/")[0]
    settings = {**_limits(options), **_endpoint(options), **_credentials(options)}
    if options.get("requester_pays"):
        settings["requester.pays.enabled"] = "true"
    return {bucket_setting(bucket, name): value for name, value in settings.items()}


def bucket_setting(bucket: str, name: str) -> str:
    return f"fs.s3a.bucket.{bucket}.{name}"


def split_setting(key: str) -> tuple[str, str]:
    """Split a :func:`bucket_setting` into (bucket, name). The bucket may have dots, so the name is found in a list."""
    inside = key.removeprefix("fs.s3a.bucket.")
    name = max((name for name in _NAMES if inside.endswith(f".{name}")), key=len)
    return inside[: -len(name) - 1], name


_NAMES = CREDENTIALS | {
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "requester.pays.enabled",
    "connection.establish.timeout",
    "connection.timeout",
    "attempts.maximum",
    "retry.limit",
    "retry.interval",
}


def _limits(options: Mapping[str, Any]) -> dict[str, str]:
    """Translate the timeouts and retries of s3fs. S3A's defaults would block for half an hour at a silent endpoint."""
    config = _mapping(options, "config_kwargs")
    connect, read = config.get("connect_timeout", CONNECT_SECONDS), config.get("read_timeout", READ_SECONDS)
    return {
        "connection.establish.timeout": _milliseconds(max(connect, _LEAST_CONNECT_SECONDS)),
        "connection.timeout": _milliseconds(read),
        # S3A retries, so the SDK must not: their numbers of tries would multiply
        "attempts.maximum": "1",
        "retry.limit": str(s3_tries(config) - 1),
        "retry.interval": "2s",
    }


def _milliseconds(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


def _endpoint(options: Mapping[str, Any]) -> dict[str, str]:
    client = _mapping(options, "client_kwargs")
    settings: dict[str, str] = {}
    endpoint = options.get("endpoint_url") or client.get("endpoint_url")
    if endpoint:
        settings["endpoint"] = str(endpoint)
        # A private store rarely has a host name for each bucket. botocore detects that, S3A needs the setting.
        settings["path.style.access"] = str(_addressing(options) != "virtual").lower()
    elif _addressing(options) == "path":
        settings["path.style.access"] = "true"
    if client.get("region_name"):
        settings["endpoint.region"] = str(client["region_name"])
    if options.get("use_ssl") is False or client.get("use_ssl") is False:
        settings["connection.ssl.enabled"] = "false"
    return settings


def _addressing(options: Mapping[str, Any]) -> object:
    return _mapping(_mapping(options, "config_kwargs"), "s3").get("addressing_style")


def _credentials(options: Mapping[str, Any]) -> dict[str, str]:
    """Translate the credentials and name their provider. Otherwise S3A would also use the environment's credentials."""
    if options.get("anon"):
        return {"aws.credentials.provider": f"{_PROVIDERS}AnonymousAWSCredentialsProvider"}
    client = _mapping(options, "client_kwargs")
    key = options.get("key") or options.get("username") or client.get("aws_access_key_id")
    secret = options.get("secret") or options.get("password") or client.get("aws_secret_access_key")
    token = options.get("token") or client.get("aws_session_token")
    if key and secret:
        keys = {"access.key": str(key), "secret.key": str(secret)}
        if token:
            return {
                **keys,
                "session.token": str(token),
                "aws.credentials.provider": f"{_PROVIDERS}TemporaryAWSCredentialsProvider",
            }
        return {**keys, "aws.credentials.provider": f"{_PROVIDERS}SimpleAWSCredentialsProvider"}
    if options.get("profile"):
        return {
            "auth.profile.name": str(options["profile"]),
            "aws.credentials.provider": f"{_PROVIDERS}auth.ProfileAWSCredentialsProvider",
        }
    return {}


def _mapping(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = options.get(name)
    return value if isinstance(value, Mapping) else {}
