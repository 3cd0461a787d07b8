"""Injected faults of a storage: the death of a process at a verb that changes data, or a lost reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage, Storages

When = Literal["before", "after"]


class SimulatedCrash(BaseException):
    """The simulated death of the process. ``except Exception`` does not catch it."""


class Verbs:
    """A counter of calls of mutating verbs (methods that change data), for a storage and all of its children."""

    def __init__(self) -> None:
        self.count = 0
        self.log: list[str] = []

    def next(self, verb: str, path: str) -> int:
        self.count += 1
        self.log.append(f"{verb} {path}")
        return self.count


class WrappedStorage(Storage):
    """A storage that passes every verb on to ``inner``. Mutating verbs run in ``_mutate``, which subclasses override.

    After a run without a fault, pass ``verbs.count`` to :func:`crash_points`. A move counts as two verbs, a copy and a
    deletion.
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

    def _same_content(self, path: str, other_path: str) -> bool:
        return self.inner.read(path) == self.inner.read(other_path)


class CrashingStorage(WrappedStorage):
    """A storage whose process dies at the ``at``-th mutating verb.

    This verb and every later mutating verb raise SimulatedCrash, because a dead process writes nothing.

    Args:
        at: The number of the verb, from 1; None for no crash.
        when: The crash comes before or after the verb's effect.
        verbs: A counter to share with other storages.
    """

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
    """A storage that loses the replies of some mutating verbs, after their effect (R17).

    Args:
        lose: Numbers of these verbs, from 1.
        repeats: True if the client under the storage repeats the request, as botocore does. A creation then raises
            AlreadyExistsError. Otherwise StorageTransientError is raised.
        verbs: A counter to share with other storages.
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
    """Yield (number of the verb, before or after) for each point at which a run of ``verbs`` mutating verbs can die."""
    for number in range(1, verbs + 1):
        yield number, "before"
        yield number, "after"
