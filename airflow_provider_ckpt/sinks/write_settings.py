"""Temporary settings of a Spark session for writes, where Spark's writers have no option.

Several writes may run at once. A write waits while another write uses settings that conflict.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOSSLESS = {
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS", "INT96"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("CORRECTED",),
    "spark.sql.parquet.int96RebaseModeInWrite": ("CORRECTED",),
    "spark.sql.parquet.writeLegacyFormat": ("false",),
    "spark.sql.parquet.fieldId.write.enabled": ("true",),
}
"""Spark setting -> accepted values, preferred first. With them, Parquet files return exactly the written values."""
_MODES: dict[str, _Mode] = {}
_CHANGED = threading.Condition()


@dataclass
class _Mode:
    """The running writes of a session. ``before``: setting -> value to restore after the last write."""

    before: Mapping[str, str]
    writes: int = 1


@contextmanager
def writing(session: SparkSession, allowed: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Apply Spark settings while the block writes. ``allowed``: setting -> accepted values, the preferred one first."""
    key = _identity(session)
    with _CHANGED:
        _enter(session, key, allowed)
    try:
        yield
    finally:
        with _CHANGED:
            _leave(session, key)


def _enter(session: SparkSession, key: str, allowed: Mapping[str, tuple[str, ...]]) -> None:
    while True:
        current = {name: str(session.conf.get(name)) for name in allowed}
        wanted = {name: values[0] for name, values in allowed.items() if current[name].upper() not in _upper(values)}
        mode = _MODES.get(key)
        if mode is None:
            for name, value in wanted.items():
                session.conf.set(name, value)
            _MODES[key] = _Mode({name: current[name] for name in wanted})
            return
        if not wanted and (allowed or not mode.before):
            mode.writes += 1
            return
        _CHANGED.wait()


def _leave(session: SparkSession, key: str) -> None:
    mode = _MODES[key]
    mode.writes -= 1
    if mode.writes:
        return
    del _MODES[key]
    try:
        for name, value in mode.before.items():
            session.conf.set(name, value)
    finally:
        _CHANGED.notify_all()


def _upper(values: tuple[str, ...]) -> set[str]:
    return {value.upper() for value in values}


def _identity(session: Any) -> str:
    return str(session._jsparkSession.sessionUUID())
