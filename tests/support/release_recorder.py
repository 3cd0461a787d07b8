"""Sink that only records what is released to it."""

from __future__ import annotations

from collections.abc import Sequence


class ReleaseRecorder:
    """Sink that keeps the ids of released handles in ``released``."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def release(self, handles: Sequence[dict[str, object]], checkpoint: int) -> dict[str, int]:
        self.released += [str(handle["id"]) for handle in handles]
        return {"rows": len(handles)}
