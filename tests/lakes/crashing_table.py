"""Lake table whose process dies at a verb of its storage or around a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.lake.footers import Footer
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.sinks.lake.table import LakeTable, Snapshot
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrappedTable(LakeTable):
    """Table that counts its commits among the verbs of its storage.

    ``before`` is called with each commit's number first.
    """

    def __init__(
        self, inner: LakeTable, storage: WrappedStorage | None, before: Callable[[int], None] | None = None
    ) -> None:
        self.inner, self.uri = inner, inner.uri
        self._storage, self._before = storage, before

    def storage(self) -> Storage | None:
        return self.inner.storage() if self._storage is None else self._storage

    def load(self) -> Snapshot | None:
        return self.inner.load()

    def create(self, columns: Sequence[Column]) -> None:
        self.inner.create(columns)

    def refusal(self, snapshot: Snapshot, change: Change) -> str | None:
        return self.inner.refusal(snapshot, change)

    def shaped(self, frame: DataFrame, snapshot: Snapshot) -> tuple[DataFrame, list[str]]:
        return self.inner.shaped(frame, snapshot)

    def partition(self, path: str, footer: Footer, snapshot: Snapshot) -> dict[str, Any]:
        return self.inner.partition(path, footer, snapshot)

    def as_stored(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        return self.inner.as_stored(columns)

    def promoted(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        return self.inner.promoted(columns, snapshot)

    def identified(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        return self.inner.identified(columns, snapshot)

    def final_path(self, name: str, snapshot: Snapshot) -> str | None:
        return self.inner.final_path(name, snapshot)

    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        if self._before is not None:
            self._before(number)
        if self._storage is None:
            self.inner.commit(snapshot, intent, number)
        else:
            self._storage._mutate("commit", self.uri, lambda: self.inner.commit(snapshot, intent, number))
