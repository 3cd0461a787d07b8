"""Opening of storages by URI. Only the file system that is needed is imported."""

from __future__ import annotations

import os
import re
import socket
from typing import Any

from airflow_provider_ckpt.storage.errors import (
    InvalidStorageOptionsError,
    InvalidStorageUriError,
    StorageFailedError,
    StorageUnreachableError,
)
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.paths import join
from airflow_provider_ckpt.storage.redaction import redact_uri, user_info
from airflow_provider_ckpt.storage.refusal import described
from airflow_provider_ckpt.storage.storage import Storage

_ONE_SLASH = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_CANONICAL = {"s3a": "s3", "gcs": "gs"}
_LOCAL = ("file", "local")


def open_storage(place: Location | str | os.PathLike[str]) -> Storage:
    """Open a local path or any fsspec URI. This writes nothing, and most backends send no request.

    The options of a location go to its fsspec file system. Local paths and ``memory://`` have none.

    Raises InvalidStorageUriError, InvalidStorageOptionsError, StorageFailedError and StorageUnreachableError.
    """
    location = Location.of(place)
    scheme, rest = _split(location.uri)
    if scheme is None:
        from airflow_provider_ckpt.storage.local_storage import LocalStorage

        return LocalStorage(rest)
    if scheme == "memory":
        from airflow_provider_ckpt.storage.memory import MemoryStorage

        return MemoryStorage(rest)
    return _open_fsspec(f"{_CANONICAL.get(scheme, scheme)}://{rest}", location)


def canonical_uri(uri: str | os.PathLike[str]) -> str:
    """Return the :attr:`Storage.uri` of a place: absolute and without secrets. No file system is opened.

    Raises InvalidStorageUriError.
    """
    text = os.fspath(uri)
    scheme, rest = _split(text)
    if scheme is None or scheme == "memory":
        return open_storage(text).uri
    return f"{_CANONICAL.get(scheme, scheme)}://{rest}"


def is_local(uri: str) -> bool:
    """Return whether a URI's form shows that it is a folder of this machine. Raises InvalidStorageUriError."""
    return _split(uri)[0] is None


def _split(uri: str) -> tuple[str | None, str]:
    """Check a URI and return (scheme, rest). The scheme is None for a local path. Errors show no secrets."""
    shown = redact_uri(uri).encode(errors="backslashreplace").decode()
    if not uri.strip():
        raise InvalidStorageUriError(uri=uri, reason="it is empty")
    if "\0" in uri:
        raise InvalidStorageUriError(uri=shown, reason="it holds a NUL character, which no path can have")
    scheme, separator, rest = uri.partition("://")
    if not _has_bytes(uri, is_local=not separator or scheme.lower() in _LOCAL):
        raise InvalidStorageUriError(uri=shown, reason="it holds half a surrogate pair, which no path can have")
    if not separator and (match := _ONE_SLASH.match(uri)):
        # it would be a folder of that name in the working directory
        reason = f"two slashes follow a scheme: {match[0]}/…, or ./{match[0]}… for a local folder"
        raise InvalidStorageUriError(uri=shown, reason=reason)
    if not separator:
        return None, re.sub("^file:", "", uri, flags=re.IGNORECASE)
    if "::" in uri:
        raise InvalidStorageUriError(uri=shown, reason="a chain of file systems ('::') may cache what it reads")
    scheme = scheme.lower()
    if scheme in _LOCAL:
        if ":" in (user_info("file://", rest) or ""):
            raise InvalidStorageUriError(uri=shown, reason="it holds a password, and a local folder has none")
        return None, re.sub("^localhost(?=/)", "", rest, flags=re.IGNORECASE)  # RFC 8089
    user = user_info(f"{scheme}://", rest) or ""
    if ":" in user or (user and scheme in ("s3", "s3a")):
        raise InvalidStorageUriError(uri=shown, reason="it holds a password or a key; give it in the storage options")
    authority, _, path = rest.rstrip("/").partition("/")
    if "?" in rest or "#" in rest:
        plain = shown.split("?")[0].split("#")[0]
        raise InvalidStorageUriError(uri=plain, reason="no '?' or '#' part; give it in the storage options")
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidStorageUriError(uri=shown, reason="no part of the path may be empty, '.' or '..'")
    return scheme, join(authority, path)


def _has_bytes(uri: str, *, is_local: bool) -> bool:
    """Return whether the URI can be encoded. Names of local folders need not be UTF-8."""
    try:
        _ = os.fsencode(uri) if is_local else uri.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_fsspec(uri: str, location: Location) -> Storage:
    """Open a location by its canonical ``uri``. Listing caches are off (R17), even if the options enable them."""
    from fsspec.utils import get_protocol

    from airflow_provider_ckpt.storage.client_limits import with_limits
    from airflow_provider_ckpt.storage.fsspec_storage import FsspecStorage
    from airflow_provider_ckpt.storage.s3 import S3Storage

    protocol = get_protocol(uri)
    names = sorted(location.options)
    try:
        kind = _file_system(protocol)
    except (ImportError, ValueError) as error:
        raise InvalidStorageUriError(uri=uri, reason=location.redact(str(error))) from None
    options = with_limits(protocol, location.options)
    try:
        fs = kind(**{**kind._get_kwargs_from_urls(uri), **options, "use_listings_cache": False})
        folder = fs._strip_protocol(uri)
    except (TypeError, ValueError) as error:
        raise InvalidStorageOptionsError(names=names, uri=uri, reason=location.redact(str(error))) from None
    except (ConnectionError, TimeoutError, socket.gaierror) as error:
        raise StorageUnreachableError(uri=uri, reason=location.redact(described(error))) from None
    except Exception as error:  # a missing library (libjvm), a refused login, an archive
        raise StorageFailedError(
            "the storage {uri} cannot be opened: {reason}; check the URI, the storage options, and what its fsspec "
            "driver needs on this machine",
            uri=uri,
            reason=location.redact(described(error)),
        ) from None
    if not folder.strip("/") and protocol in ("s3", "gs", "abfs", "abfss", "az"):
        raise InvalidStorageUriError(uri=uri, reason="it names no bucket")
    return (S3Storage if protocol == "s3" else FsspecStorage)(uri, fs, folder, location.secrets())


def _file_system(protocol: str) -> Any:
    """Return fsspec's class for a protocol. Raises ImportError and ValueError."""
    import fsspec

    kind = fsspec.get_filesystem_class(protocol)  # the error names a missing package
    if protocol != "s3":
        return kind
    from airflow_provider_ckpt.storage.s3_client import LimitedS3FileSystem

    return LimitedS3FileSystem
