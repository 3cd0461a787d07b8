"""From a URI to its storage. No file system is imported that is not asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.storage.errors import InvalidStorageOptionsError, InvalidStorageUriError
from airflow_provider_ckpt.storage.faults import redact, secrets_in
from airflow_provider_ckpt.storage.paths import join
from airflow_provider_ckpt.storage.storage import Storage

_CANONICAL = {"s3a": "s3", "gcs": "gs"}


def open_storage(uri: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """Open a local path or any fsspec URI; nothing is written and, for most backends, nothing is asked.

    ``options`` go to the fsspec file system (endpoint, credentials); a local path and ``memory://`` have
    none. Raises InvalidStorageUriError, InvalidStorageOptionsError.
    """
    text = os.fspath(uri)
    scheme, rest = _split(text)
    if scheme is None:
        from airflow_provider_ckpt.storage.local import LocalStorage

        return LocalStorage(rest)
    if scheme == "memory":
        from airflow_provider_ckpt.storage.memory import MemoryStorage

        return MemoryStorage(rest)
    return _open_fsspec(f"{_CANONICAL.get(scheme, scheme)}://{rest}", dict(options or {}))


def canonical_uri(uri: str | os.PathLike[str]) -> str:
    """:attr:`Storage.uri` of what :func:`open_storage` opens: absolute, and without a secret. No file system is
    opened. Raises InvalidStorageUriError."""
    text = os.fspath(uri)
    scheme, rest = _split(text)
    if scheme is None or scheme == "memory":
        return open_storage(text).uri
    return f"{_CANONICAL.get(scheme, scheme)}://{rest}"


def _split(uri: str) -> tuple[str | None, str]:
    """Scheme (None: local) and the rest of a URI that was found sound."""
    if not uri.strip() or "\0" in uri:
        raise InvalidStorageUriError(uri=uri, reason="it is empty")
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return None, uri.removeprefix("file:")
    if "::" in uri:
        raise InvalidStorageUriError(uri=uri, reason="a chain of file systems ('::') may cache what it reads")
    scheme = scheme.lower()
    if scheme in ("file", "local"):
        return None, rest
    authority, _, path = rest.rstrip("/").partition("/")
    user, _, host = authority.rpartition("@")
    if ":" in user:
        shown = f"{scheme}://{user.split(':')[0]}:***@{join(host, path)}"
        raise InvalidStorageUriError(uri=shown, reason="it holds a password; give it in the storage options")
    if "?" in rest or "#" in rest:
        shown = f"{scheme}://{rest.split('?')[0].split('#')[0]}"
        raise InvalidStorageUriError(uri=shown, reason="no '?' or '#' part; give it in the storage options")
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidStorageUriError(uri=uri, reason="no part of the path may be empty, '.' or '..'")
    return scheme, join(authority, path)


def _open_fsspec(uri: str, options: dict[str, Any]) -> Storage:
    """``uri`` is canonical. Listing caches are off (R17), whatever the options say."""
    import fsspec
    from fsspec.utils import get_protocol

    from airflow_provider_ckpt.storage.fsspec_storage import FsspecStorage
    from airflow_provider_ckpt.storage.s3 import S3Storage

    protocol = get_protocol(uri)
    secrets = tuple(secrets_in(options))
    names = sorted(options)
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        raise InvalidStorageUriError(uri=uri, reason=str(error)) from None
    try:
        fs = kind(**{**kind._get_kwargs_from_urls(uri), **options, "use_listings_cache": False})
        folder = fs._strip_protocol(uri)
    except (TypeError, ValueError) as error:
        raise InvalidStorageOptionsError(names=names, uri=uri, reason=redact(str(error), secrets)) from None
    if not folder.strip("/") and protocol in ("s3", "gs", "abfs", "abfss", "az"):
        raise InvalidStorageUriError(uri=uri, reason="it names no bucket")
    return (S3Storage if protocol == "s3" else FsspecStorage)(uri, fs, folder, secrets)
