"""Steps at which a driver with sinks of several kinds pauses itself, before or after a call or a record.

The driver pauses with SIGSTOP until it is killed. After SIGCONT it resumes as a zombie.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

VARIABLE, HOST = "CKPT_SINK_STEP", "CKPT_SINK_HOST"
SINKS = ("files", "table", "second", "mariadb", "delta", "iceberg", "topic")
RECORDS = {
    "published": r'"type": "Batch"',
    "triggered": r'"type": "CheckpointTriggered"',
    "completed": r'"type": "CheckpointCompleted"',
    "first-released": r'"type": "SinkReleased"',
    "all-released": r'"type": "CheckpointReleased"',
}
_installed: list[str] = []
STEPS = (*(f"{what} {sink}" for what in ("stage", "release", "inside") for sink in SINKS), *RECORDS)
"""Names of the steps.

``stage`` and ``release`` are the whole call. ``inside`` is the commit that makes the release count in that target. The
others are records in the journal or in a subtask's log.
"""


def pause_environ(step: str | None, *, after: bool = False, times: int = 1) -> dict[str, str]:
    """Return variables that make a driver pause the ``times``-th time it reaches the step."""
    return {} if step is None else {VARIABLE: json.dumps([step, after, times])}


def pause_at_step() -> None:
    """Install the pause that the variables ask for.

    The job's file calls it in every process that loads it, before the job is claimed. A second call in a process does
    nothing. With ``HOST``, the claim names an unreachable host, so only the fence stops this driver (R8).
    """
    if HOST in os.environ:
        socket.gethostname = lambda: os.environ[HOST]
    if VARIABLE in os.environ and not _installed:
        _installed.append(VARIABLE)
        _Pause(*json.loads(os.environ[VARIABLE])).install()


class _Pause:
    def __init__(self, step: str, after: bool, times: int) -> None:
        self._what, _, self._sink = step.partition(" ")
        self._after, self._left = after, times
        self._lock, self._in_release = threading.Lock(), threading.local()

    def install(self) -> None:
        from airflow_provider_ckpt.sinks.file.bound_file_sink import BoundFileSink
        from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
        from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
        from airflow_provider_ckpt.sinks.postgres.bound_postgres_sink import BoundPostgresSink
        from airflow_provider_ckpt.sinks.sql.bound_sql_sink import BoundSqlSink

        for kind in (BoundFileSink, BoundKafkaSink, BoundLakeSink, BoundSqlSink):
            for name in ("stage", "release"):
                self._wrap(kind, name, self._call_of(name))
        self._wrap(BoundPostgresSink, "stage", self._call_of("stage"))
        self._wrap(BoundPostgresSink, "release_together", self._is_release_of_some)
        self._install_inside()
        self._install_records()

    def _install_inside(self) -> None:
        import psycopg
        import sqlalchemy

        from airflow_provider_ckpt.sinks.delta.delta_table import DeltaLakeTable
        from airflow_provider_ckpt.sinks.iceberg.iceberg_table import IcebergLakeTable
        from airflow_provider_ckpt.sinks.kafka.transactions import Transactions

        for kind in (psycopg.Connection, sqlalchemy.Connection, Transactions, DeltaLakeTable, IcebergLakeTable):
            self._wrap(kind, "commit", lambda *arguments: self._is_inside())

    def _install_records(self) -> None:
        from airflow_provider_ckpt.storage.local_storage import LocalStorage

        self._wrap(LocalStorage, "create", self._is_record)

    def _call_of(self, name: str) -> Callable[..., bool]:
        def is_it(sink: Any, *arguments: Any) -> bool:
            if name == "release":
                self._in_release.sink = sink._context.uid if arguments[0] else None
            return self._what == name and self._sink == sink._context.uid and (name == "stage" or bool(arguments[0]))

        return is_it

    def _is_release_of_some(self, sink: Any, participants: Any, checkpoint: int) -> bool:
        uids = [member.sink._context.uid for member in participants if member.handles]
        self._in_release.sink = self._sink if self._sink in uids else None
        return self._what == "release" and self._sink in uids

    def _is_inside(self) -> bool:
        return self._what == "inside" and self._sink == getattr(self._in_release, "sink", None)

    def _is_record(self, storage: Any, path: str, data: bytes) -> bool:
        where, text = f"{storage.uri}/{path}", data.decode(errors="replace")
        if self._what == "inside":
            return self._is_inside() and re.search(r"/manifests/\d+\.json", where) is not None
        return self._what in RECORDS and re.search(RECORDS[self._what], text) is not None

    def _wrap(self, kind: Any, name: str, is_it: Callable[..., bool]) -> None:
        method = getattr(kind, name)

        def around(instance: Any, *arguments: Any, **named: Any) -> Any:
            is_there = is_it(instance, *arguments)
            if is_there and not self._after:
                self._stand_still()
            result = method(instance, *arguments, **named)
            if is_there and self._after:
                self._stand_still()
            return result

        setattr(kind, name, around)

    def _stand_still(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left != 0:
                return
        os.kill(os.getpid(), signal.SIGSTOP)
