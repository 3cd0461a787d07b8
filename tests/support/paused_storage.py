"""Storage in which another process acts before a given verb."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage


class PausedStorage(WrappedStorage):
    """Storage that calls ``act`` before its ``at``-th verb, of whatever kind."""

    def __init__(self, inner: Storage, at: int, act: Callable[[], None]) -> None:
        super().__init__(inner)
        self.at, self.act, self.seen = at, act, 0

    def _hit(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.act()

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        self._hit()
        super()._mutate(verb, path, act)

    def read(self, path):  # type: ignore[no-untyped-def]
        self._hit()
        return super().read(path)

    def exists(self, path):  # type: ignore[no-untyped-def]
        self._hit()
        return super().exists(path)

    def list(self, path):  # type: ignore[no-untyped-def]
        self._hit()
        return super().list(path)
