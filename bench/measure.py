"""Measurement of queries: their progress events, and the CPU time of the driver's two processes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch. ``start`` and ``end`` in epoch seconds; ``rows``: source's folder -> rows read."""

    query: str
    batch_id: int
    start: float
    end: float
    rows: dict[str, int]
    durations: dict[str, int]


class ProgressListener(StreamingQueryListener):
    """Listener that passes each progress event to ``on_progress`` as parsed JSON.

    It takes the event as one text from the JVM, because PySpark's conversion would take as long as some batches.
    """

    def __init__(self, on_progress: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_progress = on_progress
        self._wrapped: Any = None

    @property
    def _jlistener(self) -> Any:
        if self._wrapped is None:
            jvm: Any = SparkContext._jvm
            self._wrapped = jvm.PythonStreamingQueryListenerWrapper(_JavaEvents(self._on_progress))
        return self._wrapped

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._on_progress(json.loads(event.progress.json))


class Progress(ProgressListener):
    """Listener that collects the micro-batches with input, and passes each to ``on_batch``."""

    def __init__(self, on_batch: Callable[[MicroBatch], None] = lambda batch: None) -> None:
        super().__init__(self._collect)
        self.batches: list[MicroBatch] = []
        self._on_batch = on_batch

    def _collect(self, progress: Mapping[str, Any]) -> None:
        rows = {source["description"]: source["numInputRows"] for source in progress["sources"]}
        if not any(rows.values()):
            return
        start = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
        durations = progress["durationMs"]
        end = start + durations["triggerExecution"] / 1000
        batch = MicroBatch(progress["name"], progress["batchId"], start, end, rows, durations)
        self.batches.append(batch)
        self._on_batch(batch)


class _JavaEvents:
    """Java's listener interface. Its events are objects of the JVM."""

    def __init__(self, on_progress: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_progress = on_progress

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._on_progress(json.loads(event.progress().json()))

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012 - read by py4j


class CpuMeter:
    """Samples of the CPU seconds that ``read`` returns, ten a second. Use it as a context."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._samples: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CpuMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, start: float, end: float) -> float:
        return self._at(end) - self._at(start)

    def _at(self, moment: float) -> float:
        return next((cpu for at, cpu in self._samples if at >= moment), self._samples[-1][1])

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self._samples.append((time.time(), self._read()))


def process_seconds(pid: int | str) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds() -> float:
    """Return the CPU seconds of all processes, and of other guests of the host (steal)."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def history_batches(batches: list[MicroBatch], query: str) -> list[MicroBatch]:
    """Return the batches of ``query`` that read history, inline or from its result partition."""
    return [batch for batch in batches if is_of(query, batch) and history_rows(batch)]


def is_of(query: str, batch: MicroBatch) -> bool:
    """Return whether ``query`` made the batch. The library's names end with the driver's epoch."""
    return batch.query == query or batch.query.startswith(f"{query}:")


def history_rows(batch: MicroBatch) -> int:
    return sum(rows for source, rows in batch.rows.items() if "live" not in source.rpartition("/")[2])
