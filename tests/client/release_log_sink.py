"""Sink without Spark that keeps, in one file, the ids of the handles that each checkpoint released."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, Sink, SinkContext, StageRequest


@dataclass(frozen=True)
class ReleaseLogSink(Sink):
    path: Path
    on_release: Callable[[int], object] = lambda checkpoint: None

    def validate(self) -> None:
        pass

    def bind(self, context: SinkContext) -> BoundReleaseLogSink:
        return BoundReleaseLogSink(self)

    def definition(self) -> Mapping[str, Any]:
        return {"type": "release_log", "path": str(self.path)}


class BoundReleaseLogSink(BoundSink):
    def __init__(self, sink: ReleaseLogSink) -> None:
        self._sink = sink

    def content(self) -> dict[str, list[str]]:
        released: dict[str, list[str]] = json.loads(self._sink.path.read_text()) if self._sink.path.exists() else {}
        return released

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        self._sink.on_release(checkpoint)
        if checkpoint > self.last_released():
            content = {**self.content(), str(checkpoint): [handle["id"] for handle in handles]}
            self._sink.path.write_text(json.dumps(content))
        return {"rows": sum(handle["rows"] for handle in handles)}

    def last_released(self) -> int:
        return max(map(int, self.content()), default=0)

    def stage(self, frame: object, request: StageRequest) -> Handle:
        return {"id": request.id, "rows": 0}

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        return []
