"""Faults of a storage, as data given from outside: a process that dies at a verb, a reply that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage, Storages

When = Literal["before", "after"]


class SimulatedCrash(BaseException):
    """The process died here. No ``except Exception`` sees it."""


class Verbs:
    """Counts the mutating verbs of a storage and of all its children."""

    def __init__(self) -> None:
        self.count = 0
        self.log: list[str] = []

    def next(self, verb: str, path: str) -> int:
        self.count += 1
        self.log.append(f"{verb} {path}")
        return self.count


class WrappedStorage(Storage):
    """Passes every verb on to ``inner``; ``_mutate`` stands around those that change something.

    ``verbs.count`` after a run without a fault says how many crash points there are. A move counts as the
    two verbs it is made of, a copy and a deletion.
    """

    def __init__(self, inner: Storage, verbs: Verbs | None = None) -> None:
        super().__init__(inner.uri)
        self.inner, self.requests_at_once = inner, inner.requests_at_once
        self.verbs = verbs or Verbs()

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self.verbs.next(verb, path)
        act()

    def _wrap(self, inner: Storage) -> WrappedStorage:
        return WrappedStorage(inner, self.verbs)

    def create(self, path: str, data: bytes) -> None:
        self._mutate("create", path, lambda: self.inner.create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._mutate("replace", path, lambda: self.inner.replace(path, data))

    def copy(self, source: str, target: str) -> None:
        self._mutate("copy", target, lambda: self.inner.copy(source, target))

    def sync(self, path: str) -> None:
        self._mutate("sync", path, lambda: self.inner.sync(path))

    def delete(self, path: str) -> None:
        self._mutate("delete", path, lambda: self.inner.delete(path))

    def delete_tree(self, path: str) -> None:
        self._mutate("delete_tree", path, lambda: self.inner.delete_tree(path))

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def list(self, path: str) -> list[str]:
        return self.inner.list(path)

    def files(self, path: str) -> Sizes:
        return self.inner.files(path)

    def spark_uri(self, path: str = "") -> str:
        return self.inner.spark_uri(path)

    def temporary(self, path: str, older_than: float, *, deep: bool = True) -> Sizes:
        return self.inner.temporary(path, older_than, deep=deep)

    def collect_temporary(self, path: str, older_than: float, *, deep: bool = True) -> int:
        return self.inner.collect_temporary(path, older_than, deep=deep)

    def probe_move(self, source: str, target: str) -> None:
        self.inner.probe_move(source, target)

    def parents(self) -> Storages:
        return self.inner.parents()

    def child(self, path: str) -> WrappedStorage:
        return self._wrap(self.inner.child(path))

    def _same_content(self, one: str, other: str) -> bool:
        return self.inner.read(one) == self.inner.read(other)


class CrashingStorage(WrappedStorage):
    """Raises SimulatedCrash at the ``at``-th mutating verb (from 1), before or after it took effect, and at
    every mutating verb after that: a dead process writes nothing more."""

    def __init__(
        self, inner: Storage, at: int | None = None, when: When = "before", verbs: Verbs | None = None
    ) -> None:
        super().__init__(inner, verbs)
        self.at = at
        self.when = when

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        number = self.verbs.next(verb, path)
        if self.at is not None and (number > self.at or (number == self.at and self.when == "before")):
            raise SimulatedCrash(f"before verb {number}: {verb} {path}")
        act()
        if number == self.at:
            raise SimulatedCrash(f"after verb {number}: {verb} {path}")

    def _wrap(self, inner: Storage) -> CrashingStorage:
        return CrashingStorage(inner, self.at, self.when, self.verbs)


class LossyStorage(WrappedStorage):
    """At the mutating verbs of the numbers ``lose`` the reply is lost after the verb took effect (R17).

    ``repeats``: the client under the storage asks again by itself, as botocore does, so that a creation is
    answered with AlreadyExistsError; otherwise StorageTransientError is raised.
    """

    def __init__(
        self, inner: Storage, lose: frozenset[int], *, repeats: bool = False, verbs: Verbs | None = None
    ) -> None:
        super().__init__(inner, verbs)
        self.lose = lose
        self.repeats = repeats

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        number = self.verbs.next(verb, path)
        act()
        if number in self.lose:
            if self.repeats:
                act()
            else:
                raise StorageTransientError(verb=verb, uri=self.full_uri(path), reason="the reply was lost")

    def _wrap(self, inner: Storage) -> LossyStorage:
        return LossyStorage(inner, self.lose, repeats=self.repeats, verbs=self.verbs)


def crash_points(verbs: int) -> Iterator[tuple[int, When]]:
    """Every place a run of ``verbs`` mutating verbs can die at."""
    for number in range(1, verbs + 1):
        yield number, "before"
        yield number, "after"
