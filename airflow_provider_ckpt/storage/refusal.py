"""The boundary of every reader: Python errors about the content of a file become errors of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError, kind_and_text
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.storage.errors import MalformedDocumentError

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Python's errors for content of another form. Errors of a storage or of the system are not among them."""
_SHOWN = 200
"""Shown characters of such an error."""


@contextmanager
def refused_as(refuse: Callable[[str], CkptError]) -> Iterator[None]:
    """Raise ``refuse(problem)`` if the content that is read in the block is not as it was written.

    Errors of this package pass: the file is absent, a later release wrote it, or the storage failed.
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
    """Return the type of a Python error and the beginning of its text."""
    return kind_and_text(error)[:_SHOWN]
