"""Deletion of objects that are no longer needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

RETRIES = 8
"""Maximum number of failed deletions that :meth:`Removal.retry` tries again in one call."""
MOST = 1000
"""Maximum number of folders whose failed deletion is retried.

The next driver deletes any other folder that remains, because no record names it.
"""


@contextmanager
def best_effort(subject: str) -> Iterator[None]:
    """Log a failed deletion of a harmless object, and continue. Raises OvertakenError, which must end all deletions."""
    try:
        yield
    except OvertakenError:
        raise
    except CkptError as error:
        log.warning("%s cannot be deleted, and stays for now: %s", subject, error)


class ErrorCollector:
    """Collector of the errors of several deletions, so that all are tried. The caller decides what errors mean."""

    def __init__(self) -> None:
        self.failed: dict[str, CkptError] = {}
        """Subject of a failed deletion -> its error."""

    @contextmanager
    def tried(self, subject: str) -> Iterator[None]:
        """Record the error if the deletion in this block fails, and continue. Raises OvertakenError."""
        try:
            yield
        except OvertakenError:
            raise
        except CkptError as error:
            self.failed[subject] = error

    def raise_first(self) -> None:
        for error in self.failed.values():
            raise error


class Removal:
    """Deletion of folders, by one thread at a time. A failure is logged and retried, and stops no other deletion."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._failed: dict[str, None] = {}
        """Paths of failed deletions, in the order in which they are tried again (a dict as an ordered set)."""

    def delete(self, path: str) -> None:
        """Delete a folder, unless its deletion has failed before. Raises OvertakenError."""
        if path not in self._failed:
            self._try(path, is_first=True)

    def retry(self) -> None:
        """Try up to :data:`RETRIES` failed deletions again. Raises OvertakenError."""
        for path in list(self._failed)[:RETRIES]:
            del self._failed[path]
            self._try(path, is_first=False)

    def _try(self, path: str, *, is_first: bool) -> None:
        try:
            self._storage.delete_tree(path)
        except OvertakenError:
            raise
        except CkptError as error:
            if is_first:
                log.warning("%s cannot be deleted, and stays for now: %s", path, error)
            if len(self._failed) < MOST:
                self._failed[path] = None
