"""Writes with different settings of one session wait for each other; those with the same settings do not."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.sinks.write_settings import LOSSLESS, writing

TYPE = "spark.sql.parquet.outputTimestampType"
DEFAULTS = {
    TYPE: "INT96",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "true",
}
MICROS = {TYPE: ("TIMESTAMP_MICROS",)}


class Session:
    def __init__(self, given: str = DEFAULTS[TYPE]) -> None:
        self.values = {**DEFAULTS, TYPE: given}
        self.conf = SimpleNamespace(get=self.values.__getitem__, set=self.values.__setitem__)
        self._jsparkSession = SimpleNamespace(sessionUUID=lambda: str(id(self)))


def in_thread(session: Any, allowed: Mapping[str, tuple[str, ...]]) -> tuple[threading.Thread, list[str]]:
    seen: list[str] = []

    def write() -> None:
        with writing(session, allowed):
            seen.append(session.values[TYPE])

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread, seen


def test_lossy_settings_are_replaced_only_during_the_write() -> None:
    session: Any = Session("TIMESTAMP_MILLIS")
    with pytest.raises(OSError, match="disk"), writing(session, LOSSLESS):
        assert session.values == {**DEFAULTS, TYPE: "TIMESTAMP_MICROS"}
        raise OSError("disk")
    assert session.values[TYPE] == "TIMESTAMP_MILLIS"


def test_lossless_settings_are_not_changed() -> None:
    session: Any = Session()
    with writing(session, LOSSLESS):
        assert session.values == DEFAULTS
        thread, seen = in_thread(session, {})
        thread.join(10)
        assert seen == ["INT96"]


def test_a_write_waits_for_a_write_with_other_settings() -> None:
    session: Any = Session()
    with writing(session, MICROS):
        beside, same = in_thread(session, MICROS)
        beside.join(10)
        assert same == ["TIMESTAMP_MICROS"]
        users, seen = in_thread(session, {})
        other: Any = Session()
        thread, elsewhere = in_thread(other, {})
        thread.join(10)
        assert elsewhere == ["INT96"]
        assert (users.is_alive(), seen) == (True, [])
    users.join(10)
    assert seen == ["INT96"]


def test_the_last_of_several_writes_restores_the_settings() -> None:
    session: Any = Session()
    first, second = writing(session, MICROS), writing(session, MICROS)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.values[TYPE] == "TIMESTAMP_MICROS"
    second.__exit__(None, None, None)
    assert session.values[TYPE] == "INT96"
