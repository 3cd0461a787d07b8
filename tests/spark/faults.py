"""Storages and sinks that fail from a chosen verb on, as they look to a process that dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.paths import Sizes
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import SimulatedCrash, Verbs, When, WrappedStorage


@dataclass
class Fault:
    """A storage that cannot be reached from the ``at``-th mutating verb on, counted over all storages together.

    ``when``: whether that verb still takes effect. ``once``: only that verb fails.
    """

    at: int | None = None
    when: When = "before"
    once: bool = False
    verbs: Verbs = field(default_factory=Verbs)

    @property
    def happened(self) -> bool:
        return self.at is not None and self.verbs.count >= self.at


class FaultyStorage(WrappedStorage):
    def __init__(self, inner: Storage, fault: Fault) -> None:
        super().__init__(inner, fault.verbs)
        self.fault = fault

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        fault, number = self.fault, self.verbs.next(verb, path)
        if fault.at is None or number < fault.at or (fault.once and number > fault.at):
            act()
            return
        if number == fault.at and fault.when == "after":
            act()
        raise StorageTransientError(verb=verb, uri=self.full_uri(path), reason=f"gone at verb {fault.at}")

    def _look(self, verb: str, path: str) -> None:
        if self.fault.happened and not self.fault.once:
            raise StorageTransientError(verb=verb, uri=self.full_uri(path), reason=f"gone at verb {self.fault.at}")

    def read(self, path: str) -> bytes:
        self._look("read", path)
        return super().read(path)

    def exists(self, path: str) -> bool:
        self._look("look for", path)
        return super().exists(path)

    def size(self, path: str) -> int:
        self._look("look for", path)
        return super().size(path)

    def list(self, path: str) -> list[str]:
        self._look("list", path)
        return super().list(path)

    def files(self, path: str) -> Sizes:
        self._look("list", path)
        return super().files(path)

    def _wrap(self, inner: Storage) -> FaultyStorage:
        return FaultyStorage(inner, self.fault)


@dataclass(frozen=True)
class FaultySink(FileSink):
    """A FileSink whose folder is reached through the fault."""

    fault: Fault = field(default_factory=Fault, compare=False, repr=False)

    def bind(self, context: SinkContext) -> BoundFileSink:
        return self.bind_to(FaultyStorage(open_storage(Path(self.path).parent), self.fault), context)

    def definition(self) -> dict[str, Any]:
        """Return the definition of a plain FileSink, because a job runs once with this sink and once without it."""
        return {**super().definition(), "type": FileSink(self.path).definition()["type"]}


class HookedStorage(WrappedStorage):
    """A storage that calls ``hook`` with the verb's name and the path, before each verb that writes."""

    def __init__(self, inner: Storage, hook: Callable[[str, str], None], verbs: Verbs | None = None) -> None:
        super().__init__(inner, verbs)
        self.hook = hook

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self.hook(verb, path)
        super()._mutate(verb, path, act)

    def _wrap(self, inner: Storage) -> HookedStorage:
        return HookedStorage(inner, self.hook, self.verbs)


def once_before_verb(verb: str, part: str, act: Callable[[], object]) -> Callable[[str, str], None]:
    """Return a hook that calls ``act`` once, before the first such verb on a path that contains ``part``."""
    done: list[str] = []

    def hook(given_verb: str, path: str) -> None:
        if not done and given_verb == verb and part in path:
            done.append(path)
            act()

    return hook


def die() -> None:
    raise SimulatedCrash


def fail_prepared() -> None:
    """Fail as a storage that cannot write a prepared batch, for :func:`at_prepared`."""
    raise StorageTransientError(verb="replace", uri="prepared", reason="Input/output error")


def before_claim(storage: Storage, act: Callable[[], object]) -> HookedStorage:
    """Return a storage that calls ``act`` just before a driver claims its epoch."""
    return HookedStorage(storage, once_before_verb("create", "/journal/", act))


def at_prepared(vertex: str, number: int, act: Callable[[], object]) -> Callable[[str, str], None]:
    """Return a hook that acts once, when batch ``number`` (from 1) of the vertex is prepared.

    The batches before it are published by then. The query waits for the hook, and the driver's loop continues.
    """
    seen: list[str] = []

    def hook(verb: str, path: str) -> None:
        if verb == "replace" and f"/{vertex}/0/prepared/" in path:
            seen.append(path)
            if len(seen) == number:
                act()

    return hook


class RefusedEntries(WrappedStorage):
    """A storage that refuses log entries of ``vertex`` that contain ``text``. They are not written."""

    def __init__(self, inner: Storage, vertex: str, text: str) -> None:
        super().__init__(inner)
        self.vertex, self.text = vertex, text.encode()

    def create(self, path: str, data: bytes) -> None:
        if f"/vertices/{self.vertex}/" in path and self.text in data:
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="gone")
        self.inner.create(path, data)

    def _wrap(self, inner: Storage) -> RefusedEntries:
        return RefusedEntries(inner, self.vertex, self.text.decode())


BATCH, END = '"type": "Batch"', '"type": "EndOfData"'


class HookedEntries(WrappedStorage):
    """A storage that calls ``hook`` after each log or journal entry that contains ``text``.

    The hook blocks the thread that appended the entry. For the journal this is the driver's loop.
    """

    def __init__(self, inner: Storage, text: str, hook: Callable[[], object]) -> None:
        super().__init__(inner)
        self.text, self.hook = text.encode(), hook

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        if self.text in data:
            self.hook()

    def _wrap(self, inner: Storage) -> HookedEntries:
        return HookedEntries(inner, self.text.decode(), self.hook)


class NothingIsPublished(WrappedStorage):
    """A storage on which batches are staged, prepared and committed by Spark, but never published.

    ``refused``: the paths of the refused entries.
    """

    def __init__(self, inner: Storage, verbs: Verbs | None = None) -> None:
        super().__init__(inner, verbs)
        self.refused: list[str] = []

    def create(self, path: str, data: bytes) -> None:
        if b'"type": "Batch"' in data:
            self.refused.append(path)
            raise StorageTransientError(verb="create", uri=self.full_uri(path), reason="gone")
        super().create(path, data)

    def child(self, path: str) -> NothingIsPublished:
        return NothingIsPublished(self.inner.child(path), self.verbs)
