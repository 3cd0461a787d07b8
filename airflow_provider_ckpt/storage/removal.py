"""Deleting what nothing needs any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ckpt.errors import CkptError, OvertakenError
from airflow_provider_ckpt.storage.storage import Storage

log = logging.getLogger(__name__)

RETRIES = 8
"""Of what could not be deleted, how much is tried again at a time."""
MOST = 1000
"""So many are kept in mind. What is beyond is left to the next driver, which deletes whatever nobody names."""


@contextmanager
def best_effort(what: str) -> Iterator[None]:
    """Around a deletion of something that is in nobody's way: an object under legal hold or another user's file is told
    of, and keeps nobody from going on. Raises OvertakenError: whoever was overtaken deletes no more."""
    try:
        yield
    except OvertakenError:
        raise
    except CkptError as error:
        log.warning("%s cannot be deleted, and stays for now: %s", what, error)


class EachByItself:
    """Of several deletions each is tried, whatever became of the others, and the caller decides what that means."""

    def __init__(self) -> None:
        self.failed: dict[str, CkptError] = {}
        """What could not be deleted, and why."""

    @contextmanager
    def tried(self, what: str) -> Iterator[None]:
        """Raises OvertakenError."""
        try:
            yield
        except OvertakenError:
            raise
        except CkptError as error:
            self.failed[what] = error

    def raise_first(self) -> None:
        for error in self.failed.values():
            raise error


class Removal:
    """Deletes folders of ``storage``, one by one. One that cannot be deleted is told of once, keeps none of the others,
    and is tried again. Any one thread may use it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._left: dict[str, None] = {}
        """In the order in which they are tried again."""

    def delete(self, path: str) -> None:
        """Raises OvertakenError."""
        if path not in self._left:
            self._try(path, is_first=True)

    def try_again(self) -> None:
        """Some of what could not be deleted. Raises OvertakenError."""
        for path in list(self._left)[:RETRIES]:
            del self._left[path]
            self._try(path, is_first=False)

    def _try(self, path: str, *, is_first: bool) -> None:
        try:
            self._storage.delete_tree(path)
        except OvertakenError:
            raise
        except CkptError as error:
            if is_first:
                log.warning("%s cannot be deleted, and stays for now: %s", path, error)
            if len(self._left) < MOST:
                self._left[path] = None
