"""Conversion of Python's errors about the content of a file into errors of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Python's errors for content of an unexpected form. Errors of storages or of the system are not included."""
_SHOWN = 200
"""Maximum number of characters of such an error's text that are shown."""


@contextmanager
def refused_as(refuse: Callable[[str], CkptError]) -> Iterator[None]:
    """Raise ``refuse(problem)`` if the content that this block reads has been damaged or changed.

    Other errors of this package are raised unchanged: the file is absent or of a later release, or the storage failed.
    """
    try:
        yield
    except MalformedDocumentError as error:
        raise refuse(error.data["reason"]) from error
    except UnknownFormError as error:
        raise refuse(error.data["what"]) from error
    except UNREADABLE as error:
        raise refuse(described(error)) from None


def described(error: BaseException) -> str:
    """Return the type and the beginning of the text of a Python error."""
    return kind_and_text(error)[:_SHOWN]
