"""Conversion of errors of storage backends into errors of this package, without secrets."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.errors import (
    StorageDeniedError,
    StorageFailedError,
    StorageFullError,
    StorageReadOnlyError,
    StorageTransientError,
    StorageUnreachableError,
)
from airflow_provider_ckpt.storage.redaction import redact

_PERMANENT_ERRNOS = {
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ELOOP,
    errno.EXDEV,
    errno.ENXIO,  # a socket, opened as a file
}
_DRIVER_ERRORS = (OSError, EOFError, NotImplementedError)
"""Python's own errors that fsspec drivers raise: a broken connection, or an operation that a file system lacks."""


@contextmanager
def translated(
    verb: str,
    uri: str,
    *,
    write: bool = False,
    secrets: Iterable[str] = (),
    right: Callable[[BaseException], str] = lambda error: "",
) -> Iterator[None]:
    """Convert the backend's errors in this block. Errors of this package and programming errors are not converted.

    Args:
        secrets: texts that the errors must not show.
        right: returns the right that a refused operation needs; empty for the usual right of the operation.
    """
    try:
        yield
    except CkptError:
        raise
    except Exception as error:
        if type(error).__module__ == "builtins" and not isinstance(error, _DRIVER_ERRORS):
            raise
        message = str(error) or type(error).__name__
        reason = redact(message, secrets)
        # A cause is printed with the traceback, so a cause with a secret is left out.
        raise _translate(error, verb, uri, write, reason, right(error)) from (error if reason == message else None)


def _translate(error: Exception, verb: str, uri: str, write: bool, reason: str, right: str) -> CkptError:
    number = getattr(error, "errno", None)
    if isinstance(error, PermissionError) or number in (errno.EROFS, errno.EACCES):
        return (StorageReadOnlyError if write else StorageDeniedError)(uri=uri, reason=reason, verb=verb, right=right)
    if "Credentials" in type(error).__name__:
        return StorageDeniedError(uri=uri, reason=reason, verb=verb, right="valid credentials")
    if isinstance(error, FileNotFoundError):
        return StorageUnreachableError(uri=uri, reason=f"no such bucket or folder ({reason})")
    if isinstance(error, NotImplementedError) or (isinstance(error, OSError) and number in _PERMANENT_ERRNOS):
        return StorageFailedError(verb=verb, uri=uri, reason=reason)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(verb=verb, uri=uri, reason=reason)
    return StorageTransientError(verb=verb, uri=uri, reason=reason)
